"""Preset folders of KerasHub: `config.json`, `model.weights.h5`, a task.

KerasHub itself writes and reads them. Reading creates only its ALBERT classes,
and never another class that the folder names.

Source: keras_hub 0.32, `models/albert`.
"""

import dataclasses
import json
import os
from typing import Any

import numpy as np

from albert_tf import checks, files
from albert_tf.checkpoints import heads, translation, variable_names
from albert_tf.checkpoints.checkpoint import (
    Arrays,
    Checkpoint,
    LazyArrays,
    Note,
    WriteReport,
)
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig
from albert_tf.text.vocabulary_file import SENTENCEPIECE

CONFIG_FILE = "config.json"
# Our file; `metadata.json` is a file of KerasHub here.
METADATA_FILE = "albert_metadata.json"
# The file that describes the head.
_TASK_FILE = "task.json"
_WEIGHTS_FILE = "model.weights.h5"
_TASK_WEIGHTS_FILE = "task.weights.h5"
_VOCABULARY = os.path.join("assets", "tokenizer", "vocabulary.spm")
# Activations of a classifier that are supported.
_ACTIVATIONS = (None, "linear", "softmax", "sigmoid")

# The argument of KerasHub for each of our fields.
_FIELDS = {
    "vocab_size": "vocabulary_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "embedding_size": "embedding_dim",
    "hidden_size": "hidden_dim",
    "intermediate_size": "intermediate_dim",
    "num_hidden_groups": "num_groups",
    "inner_group_num": "num_inner_repetitions",
    "max_position_embeddings": "max_sequence_length",
    "type_vocab_size": "num_segments",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "dropout",
}
_OLD_PACKAGE = "keras_nlp>", "keras_hub>"  # of older presets
_BACKBONE = "keras_hub>AlbertBackbone"
_MASKED_LM = "keras_hub>AlbertMaskedLM"
_CLASSIFIERS = "keras_hub>AlbertTextClassifier", "keras_hub>AlbertClassifier"


def recognises(path: str) -> bool:
    """Returns whether a path is the folder of a preset."""
    config = os.path.join(path, CONFIG_FILE)
    return "registered_name" in files.read_json_object(config, missing_ok=True)


def describe(path: str, albert_config: AlbertConfig | None) -> Checkpoint:
    """Describes a folder."""
    config = _read_config(os.path.join(path, CONFIG_FILE))
    vocabulary = os.path.join(path, _VOCABULARY)
    metadata, notes = Metadata.read(path, name=METADATA_FILE), []
    _, task = _read(os.path.join(path, _TASK_FILE))
    if task.get("activation") == "sigmoid":
        metadata = metadata.combined(Metadata(multi_label=True))
    if metadata.do_lower_case is None:
        text = "do_lower_case=true (it is not said; KerasHub keeps capitals)"
        notes.append(Note("assumed", text))
    checkpoint = Checkpoint(
        path=path,
        format="keras_hub",
        arrays=LazyArrays(path, lambda _: _read_arrays(path, config)),
        config=config,
        vocabulary=vocabulary if os.path.isfile(vocabulary) else None,
        metadata=metadata,
        notes=tuple(notes),
    )
    return translation.with_projection(checkpoint)


def _read(path: str) -> tuple[str, files.JsonObject]:
    """Returns the class that a file names, if it is there, and its config."""
    saved = files.read_json_object(path, missing_ok=True)
    name = str(saved.get("registered_name", ""))
    return name.replace(*_OLD_PACKAGE), files.object_of(saved, "config", path)


def _read_arrays(folder: str, config: AlbertConfig) -> Arrays:
    backbone = _backbone(config)
    model = _load_task(folder, backbone)
    backbone.load_weights(os.path.join(folder, _WEIGHTS_FILE))
    arrays = {weight.path: np.asarray(weight) for weight in model.weights}
    arrays = translation.to_tf1(arrays, "keras_hub")
    for name, array in arrays.items():
        shape = variable_names.shape_of(name, config)
        # Attention kernels have a separate dimension for the heads.
        arrays[name] = array.reshape([-1 if n is None else n for n in shape])
    return arrays


def _read_config(path: str) -> AlbertConfig:
    name, arguments = _read(path)
    if name != _BACKBONE:
        raise ValueError(f"it has a {name!r}, but only a {_BACKBONE!r} is read")
    fields = {n: arguments.get(name) for n, name in _FIELDS.items()}
    return AlbertConfig.from_dict(fields, where=path)


def _backbone(config: AlbertConfig) -> Any:
    import keras_hub

    arguments = {name: getattr(config, n) for n, name in _FIELDS.items()}
    return keras_hub.models.AlbertBackbone(dtype="float32", **arguments)


def _load_task(folder: str, backbone: object) -> Any:
    """Returns the model with the weights of its head; or else the backbone."""
    name, settings = _read(os.path.join(folder, _TASK_FILE))
    weights = os.path.join(folder, _TASK_WEIGHTS_FILE)
    if not name or not os.path.isfile(weights):
        return backbone
    activation = settings.get("activation")
    is_supported = name == _MASKED_LM or name in _CLASSIFIERS
    if not is_supported or activation not in _ACTIVATIONS:
        raise ValueError(
            f"{folder!r} has a {name!r} with activation={activation!r}, but "
            f"only {_MASKED_LM!r} and {_CLASSIFIERS[0]!r} are supported, the "
            f"latter with activation {checks.listed(_ACTIVATIONS)}."
        )
    model = _task(backbone, num_classes=settings.get("num_classes"))
    model.load_task_weights(weights)
    return model


def _task(
    backbone: Any, *, num_classes: int | None, tokenizer: Any = None
) -> Any:
    """Returns a classifier, or without `num_classes` a masked LM."""
    import keras_hub

    models = keras_hub.models
    sizes = (num_classes,) if num_classes else ()
    model, preprocessor = (
        (models.AlbertTextClassifier, models.AlbertTextClassifierPreprocessor)
        if sizes
        else (models.AlbertMaskedLM, models.AlbertMaskedLMPreprocessor)
    )
    length = backbone.max_sequence_length
    before = preprocessor(tokenizer, length) if tokenizer else None
    return model(backbone, *sizes, before)


def write(folder: str, checkpoint: Checkpoint) -> WriteReport:
    """Fills an empty folder so that `from_preset` loads it.

    A preset holds one head: a classifier if there is one, or else the masked
    LM.
    """
    config = translation.as_groups(checkpoint.known_config, "KerasHub")
    dropouts = config.hidden_dropout_prob, config.attention_probs_dropout_prob
    names = ["hidden_act"] if config.hidden_act != "gelu" else []
    if dropouts[0] != dropouts[1]:
        names += ["hidden_dropout_prob", "attention_probs_dropout_prob"]
    if names:
        other = [f"{name}={getattr(config, name)!r}" for name in names]
        raise ValueError(
            "KerasHub, with gelu and one dropout for both, cannot express "
            f"{checks.listed(other)}. Pass --output_format=keras."
        )
    import keras_hub

    tokenizer = None
    # KerasHub's tokenizer for ALBERT reads only SentencePiece models.
    if checkpoint.vocabulary_kind == SENTENCEPIECE:
        tokenizer = keras_hub.models.AlbertTokenizer(
            proto=checkpoint.tokenizer.vocabulary
        )
    model = _backbone(config)
    # Its classifier reads the pooled output; a classifier of tokens does not.
    present = heads.present(checkpoint.heads, checkpoint.metadata)
    has_classifier = any("task" in head.over_pooler for head in present)
    if has_classifier or "cls/predictions" in checkpoint.heads:
        labels = checkpoint.arrays["output_bias"] if has_classifier else ()
        model = _task(model, num_classes=len(labels), tokenizer=tokenizer)
    arrays, left_out = translation.from_tf1(checkpoint, "keras_hub")
    for variable in model.weights:
        if variable.path not in arrays:
            raise ValueError(
                f"KerasHub needs {variable.path}: it is missing. Without a "
                "pooler, as transformers saves models of masks, questions and "
                "tags, pass --output_format=keras."
            )
        variable.assign(arrays.pop(variable.path).reshape(variable.shape))
    unused, _ = translation.rename(arrays, source="keras_hub", target="tf1")
    left_out = sorted([*left_out, *unused])
    model.save_to_preset(folder)
    if tokenizer:
        tokenizer.save_to_preset(folder)
    metadata = translation.stored_head(checkpoint.metadata, left_out)
    metadata.write(folder, name=METADATA_FILE)
    return left_out, _notes(checkpoint)


def _notes(checkpoint: Checkpoint) -> list[Note]:
    """Returns notes on facts that KerasHub does not read."""
    reason = f"only in {METADATA_FILE}: KerasHub does not read it"
    metadata = checkpoint.metadata
    others = dataclasses.replace(metadata, do_lower_case=None)
    notes = translation.notes_on_metadata(others, reason)
    steps = [] if metadata.do_lower_case is False else ["lower-casing"]
    steps += [] if metadata.keep_accents else ["removal of accents"]
    text = ""
    if checkpoint.vocabulary_kind not in ("", SENTENCEPIECE):
        text = f"vocabulary={json.dumps(checkpoint.vocabulary)} (its tokenizer "
        text += "of ALBERT is for SentencePiece)"
    elif checkpoint.vocabulary and steps:
        text = f"{' and '.join(steps)} (its tokenizer does neither: "
        text += "change the text before calling it)"
    if text:
        notes.append(Note("left out", text))
    return notes
