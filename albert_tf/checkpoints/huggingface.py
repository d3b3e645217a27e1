"""Folders of Hugging Face's transformers: `config.json`, `model.safetensors`.

PyTorch is not needed. Pickled files (`pytorch_model.bin`) are never read.

NumPy and safetensors.

Source: transformers 5, `models/albert`.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy

from albert_tf import files
from albert_tf.checkpoints import (
    checkpoint,
    huggingface_config,
    metadata,
    variable_names,
    vocabulary,
)
from albert_tf.checkpoints.checkpoint import Checkpoint, Note, Written
from albert_tf.config import AlbertConfig

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_SPM_FILE = "spiece.model"
_WORDPIECE_FILE = "vocab.txt"
_JSON_FILE = "tokenizer.json"

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


def read(
    path: files.Path, *, albert_config: AlbertConfig | None = None
) -> Checkpoint:
    """Reads a folder.

    Args:
        path: The folder.
        albert_config: Config of the model, if the user has given one. It says
            whether `hidden_act="gelu"` means ALBERT's GELU.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file is damaged; the model is not an ALBERT, or is one
            that our config cannot express; or weights and config disagree.
    """
    folder = files.check_local(path)
    config_file = os.path.join(folder, huggingface_config.CONFIG_FILE)
    values = files.read_json_object(config_file)
    config = huggingface_config.read_config(values, config_file, albert_config)
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
        notes=tuple(huggingface_config.notes(folder, values)),
    )
    checkpoint.check(found, folder)
    return found


def _read_tensors(folder: str) -> dict[str, np.ndarray]:
    # As in transformers, an index beside the one file is not read.
    names = [WEIGHTS_FILE]
    if not os.path.isfile(os.path.join(folder, WEIGHTS_FILE)):
        names = _parts(os.path.join(folder, INDEX_FILE))
    tensors: dict[str, np.ndarray] = {}
    for name in names:
        tensors |= _read_safetensors(os.path.join(folder, name))
    if any(name.startswith(_PREFIX) for name in tensors):
        return tensors
    # The file of a bare AlbertModel has names without the prefix.
    return {_PREFIX + name: array for name, array in tensors.items()}


def _parts(index: str) -> list[str]:
    weight_map = files.object_of(
        files.read_json_object(index), "weight_map", index
    )
    names = {*weight_map.values()} if weight_map else {None}
    if not all(
        isinstance(name, str) and name == os.path.basename(name)
        for name in names
    ):
        raise ValueError(
            f"{index!r} is damaged: `weight_map` must give each tensor the "
            "name of a file beside it. Copy it again."
        )
    return sorted(map(str, names))


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
    for name in (_SPM_FILE, _WORDPIECE_FILE, _JSON_FILE):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    return None


def write(folder: str, source: Checkpoint) -> Written:
    """Fills an empty folder so that `from_pretrained` loads it.

    Raises:
        ValueError: The format cannot express the config; or the labels of the
            metadata are not those of the classifier.
    """
    config = checkpoint.as_groups(
        checkpoint.known_config(source), "transformers"
    )
    huggingface_config.check_groups(config)
    tensors, left_out = _translate(
        checkpoint.with_projection(source), source="tf1", target="huggingface"
    )
    values = huggingface_config.config_values(config, source)
    # transformers refuses files that are not marked as PyTorch's.
    data = safetensors.numpy.save(
        {name: np.ascontiguousarray(array) for name, array in tensors.items()},
        metadata={"format": "pt"},
    )
    with files.atomic_write(os.path.join(folder, WEIGHTS_FILE)) as file:
        file.write(data)
    files.write_json(
        os.path.join(folder, huggingface_config.CONFIG_FILE), values
    )
    _write_vocabulary(folder, source)
    return Written(left_out, _write_metadata(folder, source))


def _write_metadata(folder: str, source: Checkpoint) -> list[Note]:
    """Writes what transformers has no place for; returns notes on it."""
    is_classifier = "task" in source.heads
    others = dataclasses.replace(
        source.metadata,
        labels=None if is_classifier else source.metadata.labels,
        multi_label=None if is_classifier else source.metadata.multi_label,
        do_lower_case=(
            None if source.vocabulary else source.metadata.do_lower_case
        ),
    )
    metadata.write(folder, others)
    return checkpoint.notes_of_metadata(
        dataclasses.replace(others, task=None),
        f"transformers does not read {metadata.METADATA_FILE}",
    )


def _write_vocabulary(folder: str, source: Checkpoint) -> None:
    if source.vocabulary is None:
        return
    settings: dict[str, Any] = {"do_lower_case": source.do_lower_case}
    if source.vocabulary.endswith(".txt"):
        name, settings["tokenizer_class"] = _WORDPIECE_FILE, "BertTokenizer"
    else:
        name, settings["tokenizer_class"] = _SPM_FILE, "AlbertTokenizer"
        settings |= huggingface_config.TOKENIZER_SETTINGS
    vocabulary.write_vocabulary(source, folder, name)
    files.write_json(
        os.path.join(folder, huggingface_config.TOKENIZER_FILE), settings
    )
