"""Folders of Hugging Face's transformers: `config.json`, `model.safetensors`.

No torch is needed. Pickled files (`pytorch_model.bin`) are never read.

Floor: checkpoints. NumPy and safetensors, an optional extra.

Source: transformers 5, `models/albert`.
"""

import json
import os
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf import files
from albert_tf.checkpoints import checkpoint, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_TOKENIZER_FILE = "tokenizer_config.json"
_SPM_FILE = "spiece.model"
_WORDPIECE_FILE = "vocab.txt"

# Both are the tanh form, ours. Their `gelu` is the exact one, by erf.
_ACTIVATIONS = {
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
_FIELDS = (
    "vocab_size",
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_hidden_groups",
    "inner_group_num",
    "num_attention_heads",
    "intermediate_size",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
)
_CLASSIFIER = "AlbertForSequenceClassification"
# Which of their classes stands for which heads; the first that fits.
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
# Buffers of constants that older versions wrote.
_CONSTANTS = {"albert.embeddings.position_ids", "embeddings.position_ids"}
_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}


def is_folder(path: str) -> bool:
    """Tells whether a path is such a folder."""
    return any(
        os.path.isfile(os.path.join(path, name))
        for name in (WEIGHTS_FILE, INDEX_FILE)
    )


def read(path: files.Path) -> Checkpoint:
    """Reads a folder.

    Raises:
        FileNotFoundError: A file is missing.
        ImportError: safetensors is not installed.
        ValueError: A file is damaged, the model is no ALBERT, or one that
            ALBERT's config cannot express; or weights and config disagree.
    """
    folder = files.check_local(path)
    config = _read_config(os.path.join(folder, CONFIG_FILE))
    arrays = _translated(_untied(_read_tensors(folder), folder), folder)
    vocabulary, do_lower_case = _read_vocabulary(folder)
    found = Checkpoint(
        arrays=checkpoint.without_projection(arrays, config, folder),
        config=config,
        vocabulary=vocabulary,
        do_lower_case=do_lower_case,
    )
    checkpoint.check(found, folder)
    return found


def _read_json(path: str) -> dict[str, Any]:
    try:
        values = json.loads(files.read_text(path))
    except ValueError as error:
        raise ValueError(f"{path!r} is not JSON: {error}.") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path!r} is not a JSON object.")
    return values


def _read_config(path: str) -> AlbertConfig:
    values = _read_json(path)
    if values.get("model_type") != "albert":
        raise ValueError(
            f"{path!r} is of a model of type {values.get('model_type')!r}. "
            "Only 'albert' is read."
        )
    if "AlbertForTokenClassification" in (values.get("architectures") or ()):
        raise ValueError(
            f"{path!r} is of an AlbertForTokenClassification, whose head "
            "labels every token; no task here does."
        )
    fields = {name: values[name] for name in _FIELDS if name in values}
    # Only its neutral value is accepted.
    if "layer_norm_eps" in values:
        fields["layer_norm_eps"] = values["layer_norm_eps"]
    activation = values.get("hidden_act", "gelu_new")
    if activation not in _ACTIVATIONS:
        raise ValueError(
            f"{path!r} has hidden_act={activation!r}, which ALBERT's config "
            f"cannot express: it knows {', '.join(_ACTIVATIONS)} (gelu is the "
            "exact one in transformers, by erf; ALBERT's is gelu_new, the "
            "tanh form). Correct it only if the model was trained so."
        )
    fields["hidden_act"] = _ACTIVATIONS[activation]
    config = checkpoint.config_of(fields, path)
    _check_groups(config)
    return config


def _check_groups(config: AlbertConfig) -> None:
    layers, groups = config.num_hidden_layers, config.num_hidden_groups
    wrong = [
        layer
        for layer in range(layers)
        if int(layer / (layers / groups)) != config.group_of_layer(layer)
    ]
    if wrong:
        raise ValueError(
            f"transformers rounds wrongly for num_hidden_layers={layers} and "
            f"num_hidden_groups={groups}: layer {wrong[0]} gets another group "
            "than here. This model cannot be carried either way."
        )


def _read_tensors(folder: str) -> dict[str, np.ndarray]:
    index = os.path.join(folder, INDEX_FILE)
    names = [WEIGHTS_FILE]
    if os.path.isfile(index):
        names = sorted(set(_read_json(index).get("weight_map", {}).values()))
    tensors: dict[str, np.ndarray] = {}
    for name in names:
        tensors |= _read_safetensors(os.path.join(folder, name))
    if any(name.startswith(_PREFIX) for name in tensors):
        return tensors
    # Files of a bare AlbertModel leave the prefix out.
    return {_PREFIX + name: array for name, array in tensors.items()}


def _read_safetensors(path: str) -> dict[str, np.ndarray]:
    safetensors = _library()
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
        # NumPy has no such type: the upper half of a float32.
        upper = np.frombuffer(values["data"], "<u2").astype(np.uint32)
        array = (upper << 16).view(np.float32)
    elif dtype in _DTYPES:
        array = np.frombuffer(values["data"], _DTYPES[dtype])
    else:
        raise ValueError(
            f"{path!r} holds {name} as {dtype}; only F32, F16, BF16 and F64 "
            "are read. Save the model in float32, not quantized."
        )
    return array.astype(np.float32).reshape(values["shape"])


def _untied(
    tensors: Mapping[str, np.ndarray], folder: str
) -> dict[str, np.ndarray]:
    """Takes out what is said twice, once it is seen to be the same."""
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
                f"{folder!r} has a {copy} of its own, not that of {original}. "
                "In ALBERT they are one, so this model cannot be expressed."
            )
        del kept[copy]
    return kept


def _translated(
    tensors: Mapping[str, np.ndarray], folder: str
) -> dict[str, np.ndarray]:
    arrays, unknown = {}, []
    for name, array in tensors.items():
        found = variable_names.translate(
            name, source="huggingface", target="tf1"
        )
        if found is None:
            unknown.append(name)
        else:
            arrays[found[0]] = array.T if found[1] else array
    if unknown:
        raise ValueError(
            f"{folder!r} holds {len(unknown)} tensors that are no ALBERT's: "
            f"{checkpoint.some(sorted(unknown))}."
        )
    return arrays


def _read_vocabulary(folder: str) -> tuple[str | None, bool]:
    settings = os.path.join(folder, _TOKENIZER_FILE)
    do_lower_case = True
    if os.path.isfile(settings):
        do_lower_case = bool(_read_json(settings).get("do_lower_case", True))
    for name in (_SPM_FILE, _WORDPIECE_FILE):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path, do_lower_case
    return None, do_lower_case


def write(folder: str, source: Checkpoint) -> list[str]:
    """Writes a folder that `from_pretrained` loads.

    Args:
        folder: An empty one.
        source: What to write.

    Returns:
        Names of the arrays that have no place there.

    Raises:
        ImportError: safetensors is not installed.
        ValueError: Half of each block is shared, or groups of layers are such
            that transformers rounds wrongly.
    """
    config = checkpoint.as_groups(
        checkpoint.known_config(source), "transformers"
    )
    _check_groups(config)
    tensors, left_out = {}, []
    for name, array in checkpoint.with_projection(source).items():
        found = variable_names.translate(
            name, source="tf1", target="huggingface"
        )
        if found is None:
            left_out.append(name)
        else:
            tensors[found[0]] = array.T if found[1] else array
    _write_safetensors(os.path.join(folder, WEIGHTS_FILE), tensors)
    values = _config_values(config, source)
    _write_json(os.path.join(folder, CONFIG_FILE), values)
    _write_vocabulary(folder, source)
    return sorted(left_out)


def _write_safetensors(path: str, tensors: Mapping[str, np.ndarray]) -> None:
    _library()
    import safetensors.numpy

    contiguous = {n: np.ascontiguousarray(a) for n, a in tensors.items()}
    # transformers refuses files that do not say that they are torch's.
    data = safetensors.numpy.save(contiguous, metadata={"format": "pt"})
    with files.atomic_write(path) as file:
        file.write(data)


def _config_values(config: AlbertConfig, source: Checkpoint) -> dict[str, Any]:
    theirs = {ours: name for name, ours in reversed(_ACTIVATIONS.items())}
    values: dict[str, Any] = {
        "architectures": _architectures(source),
        "model_type": "albert",
        **{name: getattr(config, name) for name in _FIELDS},
        "hidden_act": theirs[config.hidden_act],
        "layer_norm_eps": 1e-12,
        # Of google-research/albert, where it is no setting.
        "classifier_dropout_prob": 0.1,
        "tie_word_embeddings": True,
        **_special_ids(source),
    }
    if "task" in source.heads:
        labels = range(_num_labels(source))
        values["id2label"] = {str(i): f"LABEL_{i}" for i in labels}
        values["label2id"] = {f"LABEL_{i}": i for i in labels}
    return values


def _architectures(source: Checkpoint) -> list[str]:
    first = next(
        name for heads, name in _ARCHITECTURES if heads <= source.heads
    )
    if first == _CLASSIFIER and _num_labels(source) == 1:
        # Regression or multiple choice: the weights do not tell, and are the
        # same in both.
        return [first, "AlbertForMultipleChoice"]
    return [first]


def _num_labels(source: Checkpoint) -> int:
    return len(source.arrays["output_weights"])


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
    _write_json(os.path.join(folder, _TOKENIZER_FILE), settings)


def _write_json(path: str, values: Mapping[str, Any]) -> None:
    files.write_text(path, json.dumps(dict(values), indent=2) + "\n")


def _library() -> Any:
    try:
        import safetensors
    except ImportError as error:
        raise ImportError(
            "Hugging Face's files are read and written with safetensors, "
            "which is not installed. Run: pip install 'albert_tf[huggingface]'"
        ) from error
    return safetensors
