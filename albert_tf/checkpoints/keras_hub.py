"""Preset folders of KerasHub: `config.json`, `model.weights.h5`, a task.

KerasHub itself writes and reads them, so that its `from_preset` loads them.
Only ALBERT's own classes are made of a folder, never one that it names.

Floor: checkpoints.

Source: keras_hub 0.32, `models/albert`.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf import files
from albert_tf.checkpoints import checkpoint, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig

CONFIG_FILE = "config.json"
_WEIGHTS_FILE = "model.weights.h5"
_TASK_FILE = "task.json"
_TASK_WEIGHTS_FILE = "task.weights.h5"
_VOCABULARY = os.path.join("assets", "tokenizer", "vocabulary.spm")

# Their argument for each field of ours, but for the two dropouts.
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
}
_PACKAGE = "keras_hub>"
_BACKBONE = f"{_PACKAGE}AlbertBackbone"
_MASKED_LM = f"{_PACKAGE}AlbertMaskedLM"
_CLASSIFIERS = (
    f"{_PACKAGE}AlbertTextClassifier",
    f"{_PACKAGE}AlbertClassifier",
)


def is_folder(path: str) -> bool:
    """Tells whether a path is a preset folder."""
    config = os.path.join(path, CONFIG_FILE)
    return os.path.isfile(config) and "registered_name" in _read_json(config)


def read(path: files.Path) -> Checkpoint:
    """Reads a folder.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file is damaged, the preset is no ALBERT's, or weights
            and config disagree.
    """
    folder = files.check_local(path)
    config = _read_config(os.path.join(folder, CONFIG_FILE))
    model = _read_task(folder, _backbone(config))
    _load(model.backbone.load_weights, os.path.join(folder, _WEIGHTS_FILE))
    arrays = checkpoint.without_projection(
        _arrays(model, config), config, folder
    )
    vocabulary = os.path.join(folder, _VOCABULARY)
    return Checkpoint(
        arrays=arrays,
        config=config,
        vocabulary=vocabulary if os.path.isfile(vocabulary) else None,
    )


def _read_json(path: str) -> dict[str, Any]:
    try:
        values = json.loads(files.read_text(path))
    except ValueError as error:
        raise ValueError(f"{path!r} is not JSON: {error}.") from error
    return values if isinstance(values, dict) else {}


def _read_config(path: str) -> AlbertConfig:
    values = _read_json(path)
    if values.get("registered_name") != _BACKBONE:
        raise ValueError(
            f"{path!r} is of a {values.get('registered_name')!r}. Only "
            f"{_BACKBONE!r} is read."
        )
    theirs = values.get("config", {})
    missing = sorted({*_FIELDS.values(), "dropout"} - set(theirs))
    if missing:
        raise ValueError(f"{path!r} lacks {', '.join(missing)}.")
    fields = {ours: theirs[name] for ours, name in _FIELDS.items()}
    fields["hidden_dropout_prob"] = theirs["dropout"]
    fields["attention_probs_dropout_prob"] = theirs["dropout"]
    return checkpoint.config_of(fields, path)


def _backbone(config: AlbertConfig) -> Any:
    import keras_hub

    arguments = {name: getattr(config, o) for o, name in _FIELDS.items()}
    return keras_hub.models.AlbertBackbone(
        dropout=config.hidden_dropout_prob, dtype="float32", **arguments
    )


class _BackboneAlone:
    """A preset without a task, in the shape of one."""

    def __init__(self, backbone: Any) -> None:
        self.backbone = backbone
        self.weights = backbone.weights
        self.save_to_preset = backbone.save_to_preset


def _read_task(folder: str, backbone: Any) -> Any:
    path = os.path.join(folder, _TASK_FILE)
    weights = os.path.join(folder, _TASK_WEIGHTS_FILE)
    if not os.path.isfile(path) or not os.path.isfile(weights):
        return _BackboneAlone(backbone)
    values = _read_json(path)
    name = values.get("registered_name")
    if name != _MASKED_LM and name not in _CLASSIFIERS:
        raise ValueError(
            f"{path!r} is of a {name!r}. Only {_MASKED_LM!r} and "
            f"{_CLASSIFIERS[0]!r} are read."
        )
    num_classes = values.get("config", {}).get("num_classes")
    model = _task(backbone, num_classes=num_classes)
    _load(model.load_task_weights, weights)
    return model


def _task(
    backbone: Any, *, num_classes: int | None, tokenizer: Any = None
) -> Any:
    """Makes the classifier, or without `num_classes` the masked LM."""
    import keras_hub

    models = keras_hub.models
    preprocessor = None
    length = backbone.max_sequence_length
    if num_classes is None:
        if tokenizer:
            preprocessor = models.AlbertMaskedLMPreprocessor(tokenizer, length)
        return models.AlbertMaskedLM(backbone, preprocessor)
    if tokenizer:
        preprocessor = models.AlbertTextClassifierPreprocessor(
            tokenizer, length
        )
    return models.AlbertTextClassifier(backbone, num_classes, preprocessor)


def _load(load: Any, path: str) -> None:
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"There is no file {path!r}. Copy the preset again."
        )
    try:
        load(path)
    # h5py raises OSError, KeyError and others at what is damaged, and Keras
    # ValueError at what does not fit.
    except Exception as error:
        raise ValueError(
            f"{path!r} is damaged, or not of the config beside it "
            f"({' '.join(str(error).split())})."
        ) from error


def _arrays(model: Any, config: AlbertConfig) -> dict[str, np.ndarray]:
    arrays = {}
    for variable in model.weights:
        found = variable_names.translate(
            variable.path, source="keras_hub", target="tf1"
        )
        if found is None:
            raise ValueError(
                f"KerasHub has a variable {variable.path!r} that is not in "
                "the table. Its version is not the one that is supported."
            )
        name, is_transposed = found
        array = np.asarray(variable)
        array = array.T if is_transposed else array
        shape = variable_names.shape_of(name, config) or ()
        # The heads of an attention come as a dimension of their own.
        arrays[name] = array.reshape([-1 if n is None else n for n in shape])
    return arrays


def write(folder: str, source: Checkpoint) -> list[str]:
    """Writes a preset that `from_preset` loads.

    Args:
        folder: An empty one.
        source: What to write. Of the heads, the classifier if there is one,
            otherwise that of the masked LM: a preset holds one task.

    Returns:
        Names of the arrays that have no place there.

    Raises:
        ValueError: KerasHub cannot express the config.
    """
    config = checkpoint.as_groups(checkpoint.known_config(source), "KerasHub")
    _check_expressible(config)
    tokenizer = _tokenizer(source)
    model = _model(source, config, tokenizer)
    used = _assign(model, checkpoint.with_projection(source))
    model.save_to_preset(folder)
    if tokenizer:
        tokenizer.save_to_preset(folder)
    return sorted(set(source.arrays) - used)


def _check_expressible(config: AlbertConfig) -> None:
    dropouts = config.hidden_dropout_prob, config.attention_probs_dropout_prob
    problems = {
        f"hidden_act={config.hidden_act!r}: its activation is gelu": (
            config.hidden_act != "gelu"
        ),
        f"hidden_dropout_prob={dropouts[0]:g} beside "
        f"attention_probs_dropout_prob={dropouts[1]:g}: it has one dropout "
        "for all places": dropouts[0] != dropouts[1],
        f"num_hidden_layers={config.num_hidden_layers} with "
        f"num_hidden_groups={config.num_hidden_groups}: its groups must "
        "divide the layers": bool(
            config.num_hidden_layers % config.num_hidden_groups
        ),
    }
    found = [problem for problem, is_there in problems.items() if is_there]
    if found:
        raise ValueError(f"KerasHub cannot express {'; nor '.join(found)}.")


def _model(source: Checkpoint, config: AlbertConfig, tokenizer: Any) -> Any:
    backbone = _backbone(config)
    if "output_weights" in source.arrays:
        num_classes = len(source.arrays["output_weights"])
    elif "cls/predictions" in source.heads:
        num_classes = None
    else:
        return _BackboneAlone(backbone)
    return _task(backbone, num_classes=num_classes, tokenizer=tokenizer)


def _tokenizer(source: Checkpoint) -> Any:
    # Its tokenizer for ALBERT knows SentencePiece only.
    if source.vocabulary is None or source.vocabulary.endswith(".txt"):
        return None
    import keras_hub

    with open(source.vocabulary, "rb") as file:
        return keras_hub.models.AlbertTokenizer(proto=file.read())


def _assign(model: Any, arrays: Mapping[str, np.ndarray]) -> set[str]:
    used = set()
    for variable in model.weights:
        found = variable_names.translate(
            variable.path, source="keras_hub", target="tf1"
        )
        name, is_transposed = found or (variable.path, False)
        if name not in arrays:
            raise ValueError(
                f"KerasHub's model has {name}, the checkpoint has not. Take "
                "it from another one with --merge_from."
            )
        array = arrays[name].T if is_transposed else arrays[name]
        variable.assign(array.reshape(variable.shape))
        used.add(name)
    return used
