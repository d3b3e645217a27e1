"""Folders of Hugging Face's transformers: `config.json`, `model.safetensors`.

PyTorch is not needed. Pickled files (`pytorch_model.bin`) are never read.

Floor: checkpoints. NumPy and safetensors.

Source: transformers 5, `models/albert`.
"""

import dataclasses
import os
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy

from albert_tf import files
from albert_tf.checkpoints import checkpoint, metadata, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_TOKENIZER_FILE = "tokenizer_config.json"
_SPM_FILE = "spiece.model"
_WORDPIECE_FILE = "vocab.txt"

# Their names of our activations. ALBERT's GELU is the tanh form; what they
# call `gelu` is the exact one, by erf.
_ACTIVATIONS = {
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
# The fields of our config that theirs has with the same name and meaning.
_FIELDS = tuple(
    field.name
    for field in dataclasses.fields(AlbertConfig)
    if field.name not in ("hidden_act", "parameter_sharing")
)
_CLASSIFIER = "AlbertForSequenceClassification"
# The first class all of whose heads are present is the one to write.
_ARCHITECTURES: tuple[tuple[set[str], str], ...] = (
    ({"task"}, _CLASSIFIER),
    ({"cls/squad"}, "AlbertForQuestionAnswering"),
    ({"cls/predictions", "cls/seq_relationship"}, "AlbertForPreTraining"),
    ({"cls/predictions"}, "AlbertForMaskedLM"),
    (set(), "AlbertModel"),
)
_PREFIX = "albert."
_DECODER = "predictions.decoder.weight"
_DECODER_BIAS = "predictions.decoder.bias"
_BIAS = "predictions.bias"
_WORD_EMBEDDINGS = "albert.embeddings.word_embeddings.weight"
# Constants that older versions stored.
_CONSTANTS = {"albert.embeddings.position_ids", "embeddings.position_ids"}
_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}


def is_folder(path: str) -> bool:
    """Returns whether a path is a Hugging Face folder with safetensors."""
    return any(
        os.path.isfile(os.path.join(path, name))
        for name in (WEIGHTS_FILE, INDEX_FILE)
    )


def read(path: files.Path) -> Checkpoint:
    """Reads a folder.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file is damaged; the model is not an ALBERT, or is one
            that our config cannot express; or weights and config disagree.
    """
    folder = files.check_local(path)
    config = _read_config(os.path.join(folder, CONFIG_FILE))
    tensors = _without_tied_copies(_read_tensors(folder), folder)
    arrays, unknown = _translate(tensors, source="huggingface", target="tf1")
    if unknown:
        raise ValueError(
            f"{folder!r} holds {len(unknown)} tensors that no ALBERT has: "
            f"{checkpoint.some(unknown)}. Pass the folder of an ALBERT."
        )
    found = Checkpoint(
        arrays=checkpoint.without_projection(arrays, config, folder),
        config=config,
        vocabulary=_vocabulary_in(folder),
        metadata=metadata.read(folder),
    )
    checkpoint.check(found, folder)
    return found


def _read_config(path: str) -> AlbertConfig:
    values = files.read_json_object(path)
    if values.get("model_type") != "albert":
        raise ValueError(
            f"{path!r} has model_type={values.get('model_type')!r}, but only "
            "'albert' is supported."
        )
    if "AlbertForTokenClassification" in (values.get("architectures") or ()):
        raise ValueError(
            f"{path!r} is the config of an AlbertForTokenClassification. Its "
            "head, which labels every token, is not supported."
        )
    fields = {name: values[name] for name in _FIELDS if name in values}
    # `AlbertConfig` accepts only the value that is built in.
    if "layer_norm_eps" in values:
        fields["layer_norm_eps"] = values["layer_norm_eps"]
    activation = values.get("hidden_act", "gelu_new")
    if activation not in _ACTIVATIONS:
        raise ValueError(
            f"{path!r} has hidden_act={activation!r}, but only "
            f"{', '.join(_ACTIVATIONS)} are supported (gelu is computed by erf "
            "in transformers; ALBERT's is gelu_new, the tanh form). Change it "
            "only if the model was trained with one of these."
        )
    fields["hidden_act"] = _ACTIVATIONS[activation]
    config = AlbertConfig.from_dict(fields, where=path)
    _check_groups(config)
    return config


def _check_groups(config: AlbertConfig) -> None:
    """Checks that transformers assigns the layers to the same groups."""
    layers, groups = config.num_hidden_layers, config.num_hidden_groups
    wrong = [
        layer
        for layer in range(layers)
        if int(layer / (layers / groups)) != config.group_of_layer(layer)
    ]
    if wrong:
        raise ValueError(
            f"With num_hidden_layers={layers} and num_hidden_groups={groups}, "
            f"transformers assigns layer {wrong[0]} to the wrong group because "
            "of a rounding error. This model cannot be converted to or from "
            "its format."
        )


def _read_tensors(folder: str) -> dict[str, np.ndarray]:
    index = os.path.join(folder, INDEX_FILE)
    names = [WEIGHTS_FILE]
    if os.path.isfile(index):
        weight_map = files.read_json_object(index).get("weight_map", {})
        names = sorted(set(weight_map.values()))
    tensors: dict[str, np.ndarray] = {}
    for name in names:
        tensors |= _read_safetensors(os.path.join(folder, name))
    if any(name.startswith(_PREFIX) for name in tensors):
        return tensors
    # The file of a bare AlbertModel has names without the prefix.
    return {_PREFIX + name: array for name, array in tensors.items()}


def _read_safetensors(path: str) -> dict[str, np.ndarray]:
    try:
        with open(path, "rb") as file:
            found = safetensors.deserialize(file.read())
    except safetensors.SafetensorError as error:
        raise ValueError(
            f"{path!r} is damaged or incomplete ({error}). Copy it again."
        ) from error
    return {
        name: _float32(path, name, values)
        for name, values in found
        if name not in _CONSTANTS
    }


def _float32(path: str, name: str, values: Mapping[str, Any]) -> np.ndarray:
    dtype = values["dtype"]
    if dtype == "BF16":
        # NumPy has no bfloat16, which is the upper half of a float32.
        upper = np.frombuffer(values["data"], "<u2").astype(np.uint32)
        array = (upper << 16).view(np.float32)
    elif dtype in _DTYPES:
        array = np.frombuffer(values["data"], _DTYPES[dtype])
    else:
        raise ValueError(
            f"{path!r} holds {name} as {dtype}, but only F32, F16, BF16 and "
            "F64 are supported. Save the model in float32, not quantized."
        )
    return array.astype(np.float32).reshape(values["shape"])


def _without_tied_copies(
    tensors: Mapping[str, np.ndarray], folder: str
) -> dict[str, np.ndarray]:
    """Removes copies of tied tensors after checking that they are equal."""
    kept = dict(tensors)
    if _DECODER_BIAS in kept:
        kept.setdefault(_BIAS, kept[_DECODER_BIAS])
    for copy, original in (
        (_DECODER, _WORD_EMBEDDINGS),
        (_DECODER_BIAS, _BIAS),
    ):
        if copy not in kept:
            continue
        if not np.array_equal(kept[copy], kept.get(original, ())):
            raise ValueError(
                f"In {folder!r}, {copy} differs from {original}. ALBERT shares "
                "these weights, so this model cannot be converted."
            )
        del kept[copy]
    return kept


def _translate(
    arrays: Mapping[str, np.ndarray], *, source: str, target: str
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Returns arrays by another format's names, and the names it lacks."""
    translated, unknown = {}, []
    for name, array in arrays.items():
        found = variable_names.translate(name, source=source, target=target)
        if found is None:
            unknown.append(name)
        else:
            new_name, is_transposed = found
            translated[new_name] = array.T if is_transposed else array
    return translated, sorted(unknown)


def _vocabulary_in(folder: str) -> str | None:
    for name in (_SPM_FILE, _WORDPIECE_FILE):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    return None


def write(folder: str, source: Checkpoint) -> list[str]:
    """Fills an empty folder so that `from_pretrained` loads it.

    Returns the names of the arrays that the format cannot store.

    Raises:
        ValueError: The format cannot express the config; or the labels of the
            metadata are not those of the classifier.
    """
    config = checkpoint.as_groups(
        checkpoint.known_config(source), "transformers"
    )
    _check_groups(config)
    tensors, left_out = _translate(
        checkpoint.with_projection(source), source="tf1", target="huggingface"
    )
    values = _config_values(config, source)
    # transformers refuses files that are not marked as PyTorch's.
    data = safetensors.numpy.save(
        {name: np.ascontiguousarray(array) for name, array in tensors.items()},
        metadata={"format": "pt"},
    )
    with files.atomic_write(os.path.join(folder, WEIGHTS_FILE)) as file:
        file.write(data)
    files.write_json(os.path.join(folder, CONFIG_FILE), values)
    _write_vocabulary(folder, source)
    return left_out


def _config_values(config: AlbertConfig, source: Checkpoint) -> dict[str, Any]:
    theirs = {ours: name for name, ours in reversed(_ACTIVATIONS.items())}
    values: dict[str, Any] = {
        "architectures": _architectures(source),
        "model_type": "albert",
        **{name: getattr(config, name) for name in _FIELDS},
        "hidden_act": theirs[config.hidden_act],
        "layer_norm_eps": 1e-12,
        # Built into google-research/albert.
        "classifier_dropout_prob": 0.1,
        "tie_word_embeddings": True,
        **_special_ids(source),
    }
    if "task" in source.heads:
        labels = _labels(source)
        values["id2label"] = {str(i): name for i, name in enumerate(labels)}
        values["label2id"] = {name: i for i, name in enumerate(labels)}
    return values


def _architectures(source: Checkpoint) -> list[str]:
    first = next(
        name for heads, name in _ARCHITECTURES if heads <= source.heads
    )
    if first == _CLASSIFIER and _num_labels(source) == 1:
        # Regression or multiple choice, whose weights have the same shapes.
        return [first, "AlbertForMultipleChoice"]
    return [first]


def _num_labels(source: Checkpoint) -> int:
    return len(source.arrays["output_weights"])


def _labels(source: Checkpoint) -> tuple[str, ...]:
    number = _num_labels(source)
    # Regression has one output and no label.
    labels = source.metadata.labels or tuple(
        f"{metadata.UNNAMED_LABEL}{i}" for i in range(number)
    )
    if len(labels) != number:
        raise ValueError(
            f"The checkpoint's metadata name {len(labels)} labels "
            f"({', '.join(labels)}), but its classifier has {number} outputs. "
            f"Correct or remove {metadata.METADATA_FILE}."
        )
    return labels


def _special_ids(source: Checkpoint) -> dict[str, int]:
    if source.vocabulary is None:
        return {}
    ids = checkpoint.load_tokenizer(source).special_ids
    return {
        "pad_token_id": ids.pad,
        "bos_token_id": ids.cls,
        "eos_token_id": ids.sep,
    }


def _write_vocabulary(folder: str, source: Checkpoint) -> None:
    if source.vocabulary is None:
        return
    settings: dict[str, Any] = {"do_lower_case": source.do_lower_case}
    if source.vocabulary.endswith(".txt"):
        name, settings["tokenizer_class"] = _WORDPIECE_FILE, "BertTokenizer"
    else:
        name, settings["tokenizer_class"] = _SPM_FILE, "AlbertTokenizer"
        settings["keep_accents"] = False
    shutil.copyfile(source.vocabulary, os.path.join(folder, name))
    files.write_json(os.path.join(folder, _TOKENIZER_FILE), settings)
