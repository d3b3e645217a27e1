"""Folders of Hugging Face's transformers: `config.json`, `model.safetensors`.

PyTorch is not needed. Pickled files (`pytorch_model.bin`) are never read.

Source: transformers 5, `models/albert`.
"""

import dataclasses
import logging
import os

import numpy as np
import safetensors.numpy

from albert_tf import checks, files
from albert_tf.checkpoints import (
    foreign_keys,
    heads,
    huggingface_tokenizer,
    sentence_transformers,
    translation,
    vocabularies,
)
from albert_tf.checkpoints.checkpoint import (
    Arrays,
    Checkpoint,
    LazyArrays,
    WriteReport,
    naming,
)
from albert_tf.checkpoints.metadata import (
    METADATA_FILE,
    TOKENIZER_SETTINGS,
    Metadata,
)
from albert_tf.config import INERT_KEYS, AlbertConfig
from albert_tf.text.vocabulary_file import SYMBOLS

_LOGGER = logging.getLogger(__name__)
_CONFIG_FILE = "config.json"
_WEIGHTS_FILE = "model.safetensors"
_INDEX_FILE = "model.safetensors.index.json"
# PEFT's adapter, whose weights are apart from the model's.
_ADAPTER_FILE = "adapter_config.json"
# A folder has one of these.
_WEIGHTS_FILES = (_WEIGHTS_FILE, _INDEX_FILE)

_PREFIX = "albert."
# Copies that some files have, and what they are copies of.
_TIED = {
    "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
    "predictions.decoder.bias": "predictions.bias",
}
_TYPES = ("bfloat16", "float16", "float32", "float64")
# Constants that older versions stored.
_CONSTANTS = {"albert.embeddings.position_ids", "embeddings.position_ids"}

# Our activations by their names there, where `gelu` is the exact GELU.
_ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "linear": "linear",
}
# Fields of our config that transformers has, with the same name and meaning.
_FIELDS = tuple(
    field.name
    for field in dataclasses.fields(AlbertConfig)
    if field.name not in ("hidden_act", "parameter_sharing", "always_projects")
)
# Problems of a classifier.
_MULTI_LABEL = "multi_label_classification"
_REGRESSION = "regression"
# Names of labels that transformers makes up begin with this.
_UNNAMED_LABEL = "LABEL_"


def recognises(path: str) -> bool:
    """Returns whether a path is the folder of a model, or has its folder."""
    folder = _model_folder(path)
    names = (os.path.join(folder, n) for n in (*_WEIGHTS_FILES, _ADAPTER_FILE))
    return any(map(os.path.isfile, names))


def _model_folder(path: str) -> str:
    with naming(path):
        return sentence_transformers.model_folder(path)


def describe(path: str, albert_config: AlbertConfig | None) -> Checkpoint:
    """Describes a folder; a config says what `hidden_act="gelu"` means."""
    folder = _model_folder(path)
    if os.path.isfile(os.path.join(folder, _ADAPTER_FILE)):
        raise ValueError(
            f"{folder!r} has an adapter ({_ADAPTER_FILE}), which changes what "
            "the model answers. Merge it: `merge_and_unload()` of peft, then "
            "`save_pretrained`."
        )
    config = _read_config(os.path.join(folder, _CONFIG_FILE), albert_config)
    facts, tokenizer = huggingface_tokenizer.read(folder)
    checkpoint = Checkpoint(
        path=folder,
        format="huggingface",
        arrays=LazyArrays(folder, _read_arrays),
        config=config,
        metadata=Metadata.read(folder).combined(_metadata_of(folder, facts)),
        **tokenizer,
    )
    return translation.with_projection(_with_head_of_labels(checkpoint))


def _with_head_of_labels(checkpoint: Checkpoint) -> Checkpoint:
    """Names the head of labels where `architectures` does not.

    It tags tokens if there is no pooler, or if the labels are such tags.
    """
    path = os.path.join(checkpoint.path, _CONFIG_FILE)
    config, head = files.read_json_object(path), heads.TOKEN_CLASSIFIER
    classes, labels = config.get("architectures"), config.get("id2label")
    is_named = [h for h in heads.HEADS.values() if classes == [h.transformers]]
    if is_named or not labels or "task" not in checkpoint.heads:
        return checkpoint
    names = map(str, labels.values())
    has_tags = any(name.startswith(("B-", "I-")) for name in names)
    if checkpoint.has_pooler and not has_tags:
        text = "%s names no class of its head: it labels texts, not tokens"
        _LOGGER.warning(text, checkpoint.path)
        return checkpoint
    metadata = dataclasses.replace(checkpoint.metadata, head=head.name)
    return dataclasses.replace(checkpoint, metadata=metadata)


def metadata_beside(folder: str, vocabulary_kind: str) -> Metadata:
    """Returns the metadata in the files of transformers of another folder."""
    facts = huggingface_tokenizer.settings_of(folder, vocabulary_kind)
    return _metadata_of(folder, facts)


def _metadata_of(folder: str, tokenizer: files.JsonObject) -> Metadata:
    """Returns the metadata in a folder's files of transformers.

    `tokenizer` has the facts about the tokenizer.
    """
    path = os.path.join(folder, _CONFIG_FILE)
    config = files.read_json_object(path, missing_ok=True)
    problem = config.get("problem_type")
    names = files.object_of(config, "id2label", path)
    numbers = [*map(str, range(len(names) or config.get("num_labels") or 0))]
    if names.keys() - {*numbers}:
        # With one label more than outputs, a gap is an error where it matters.
        numbers.append(str(len(names)))
    labels = [str(names.get(i, f"{_UNNAMED_LABEL}{i}")) for i in numbers]
    if len({*labels}) < len(labels):
        labels = [
            f"{name} ({i})" if labels.count(name) > 1 else name
            for i, name in enumerate(labels)
        ]
        _LOGGER.warning("%s repeats a label: %s", path, checks.listed(labels))
    classes = config.get("architectures")
    # Pipelines of transformers, and the CrossEncoder of sentence-transformers,
    # take the output for log odds. A trained regression is named as such.
    is_classifier = classes in (None, [], [heads.CLASSIFIER.transformers])
    if problem is None and len(labels) == 1 and is_classifier:
        is_number = sentence_transformers.gives_number(folder)
        problem = _REGRESSION if is_number else _MULTI_LABEL
    is_number = len(labels) == 1 and problem != _MULTI_LABEL
    is_unnamed = all(str(label).startswith(_UNNAMED_LABEL) for label in labels)
    lowers = tokenizer.get("do_lower_case") is not False
    settings = sentence_transformers.settings_of(folder, lowers=lowers)
    facts = {"settings": settings or None, **tokenizer}
    if problem == _REGRESSION:
        facts["labels"] = []
        if not (is_number or is_unnamed):
            facts["output_names"] = labels
    elif not is_number and not is_unnamed:
        facts["labels"] = labels
    if problem == _MULTI_LABEL:
        facts["multi_label"] = True
    for head in heads.HEADS.values():
        # Heads with the variables of an earlier head need a name.
        is_first = [head.name] == heads.candidates(head.groups, Metadata())
        if classes == [head.transformers] and not is_first:
            facts["head"] = head.name
    return Metadata.from_json(path, facts)


def _read_arrays(folder: str) -> Arrays:
    tensors = _read_tensors(folder)
    for copy in _TIED.keys() & tensors.keys():
        array, original = tensors.pop(copy), _TIED[copy]
        if not np.array_equal(array, tensors.setdefault(original, array)):
            text = f"{copy} differs from {original}, which ALBERT shares"
            raise ValueError(text)
    return translation.to_tf1(tensors, "huggingface")


def _read_config(path: str, albert_config: AlbertConfig | None) -> AlbertConfig:
    values = files.read_json_object(path)
    kind, classes = values.get("model_type"), values.get("architectures") or ()
    if kind != "albert":
        text = f"model_type={kind!r}, architectures={checks.listed(classes)}"
        raise ValueError(f"{text}; only an ALBERT is supported")
    if refused := foreign_keys.refused(path, values):
        raise ValueError(f"{checks.listed(refused)} is not supported")
    # `AlbertConfig` accepts only the epsilon that is built in.
    names = (*_FIELDS, *INERT_KEYS)
    fields = {name: values[name] for name in names if name in values}
    activation = values.get("hidden_act", "gelu_new")
    fields["hidden_act"] = _ACTIVATIONS.get(activation, activation)
    # Published ALBERT configs had `gelu` although the models were trained with
    # the tanh form (huggingface/transformers, issue 2395).
    if activation == "gelu" == getattr(albert_config, "hidden_act", None):
        _LOGGER.warning("%s: 'gelu' is taken as the given config does", path)
        fields["hidden_act"] = "gelu"
    config = AlbertConfig.from_dict(fields, where=path)
    _check_groups(config)
    return config


def _check_groups(config: AlbertConfig) -> None:
    """Checks that transformers assigns the layers to the same groups."""
    layers, groups = config.num_hidden_layers, config.num_hidden_groups
    if any(
        int(layer / (layers / groups)) != config.group_of_layer(layer)
        for layer in range(layers)
    ):
        raise ValueError(
            f"With num_hidden_layers={layers} and num_hidden_groups={groups}, "
            "transformers assigns a layer to the wrong group (it rounds)."
        )


def _read_tensors(folder: str) -> dict[str, np.ndarray]:
    import ml_dtypes  # noqa: F401  NumPy then knows bfloat16.

    # As in transformers, an index is not read if there is the one file.
    names = {_WEIGHTS_FILE}
    if not os.path.isfile(os.path.join(folder, _WEIGHTS_FILE)):
        index = os.path.join(folder, _INDEX_FILE)
        names = {*files.read_json_object(index)["weight_map"].values()}
    tensors: dict[str, np.ndarray] = {}
    for name in sorted(names):
        path = sentence_transformers.inside(folder, name)
        part = safetensors.numpy.load_file(path)
        for name in part.keys() - _CONSTANTS:
            # Integers have scales that are not read.
            if part[name].dtype.name not in _TYPES:
                raise ValueError(f"{name} is of type {part[name].dtype}")
            # Names in files of distributed and of compiled models.
            known = name.removeprefix("module.").removeprefix("_orig_mod.")
            tensors[known] = part[name].astype(np.float32, copy=False)
    if any(name.startswith(_PREFIX) for name in tensors):
        return tensors
    # The file of a bare AlbertModel has names without the prefix.
    return {_PREFIX + name: array for name, array in tensors.items()}


def write(folder: str, checkpoint: Checkpoint) -> WriteReport:
    """Fills an empty folder so that `from_pretrained` loads it."""
    config = translation.as_groups(checkpoint.known_config, "transformers")
    _check_groups(config)
    tensors, left_out = translation.from_tf1(checkpoint, "huggingface")
    values = config_values(config, checkpoint)
    # transformers refuses files that are not marked as PyTorch's.
    data = safetensors.numpy.save(
        {name: np.ascontiguousarray(array) for name, array in tensors.items()},
        metadata={"format": "pt"},
    )
    with files.atomic_write(os.path.join(folder, _WEIGHTS_FILE)) as file:
        file.write(data)
    files.write_json(os.path.join(folder, _CONFIG_FILE), values)
    others = translation.stored_head(checkpoint.metadata, left_out)
    if "task" in checkpoint.heads:
        in_config = ("labels", "multi_label", "output_names")
        others = dataclasses.replace(others, **dict.fromkeys(in_config))
    if checkpoint.vocabulary_kind == SYMBOLS:
        vocabularies.write(checkpoint, folder)
    elif checkpoint.vocabulary:
        huggingface_tokenizer.write(folder, checkpoint)
        others = dataclasses.replace(
            others, **dict.fromkeys(TOKENIZER_SETTINGS)
        )
    others.write(folder)
    if sentence_transformers.write(folder, checkpoint):
        others = dataclasses.replace(others, settings=None)
    reason = f"only in {METADATA_FILE}: transformers does not read it"
    return left_out, translation.notes_on_metadata(others, reason)


def config_values(
    config: AlbertConfig, checkpoint: Checkpoint
) -> files.JsonObject:
    """Returns the values of a `config.json`; in `config`, groups share all."""
    activations = {ours: name for name, ours in reversed(_ACTIVATIONS.items())}
    metadata = checkpoint.metadata
    values: files.JsonObject = {
        "architectures": _architectures(checkpoint),
        "model_type": "albert",
        **{name: getattr(config, name) for name in _FIELDS},
        "hidden_act": activations[config.hidden_act],
        "layer_norm_eps": 1e-12,
        # Built into google-research/albert.
        "classifier_dropout_prob": 0.1,
        "tie_word_embeddings": True,
    }
    if checkpoint.vocabulary:
        ids = checkpoint.tokenizer.special_ids
        values["pad_token_id"] = ids.pad
        values["bos_token_id"] = ids.cls
        values["eos_token_id"] = ids.sep
    if "task" in checkpoint.heads:
        num_labels = len(checkpoint.arrays["output_weights"])
        # Regression has one output and no label.
        labels = tuple(f"{_UNNAMED_LABEL}{i}" for i in range(num_labels))
        labels = metadata.output_names or labels
        if metadata.labels:
            labels = metadata.find_labels(num_labels)
        values["id2label"] = {str(i): name for i, name in enumerate(labels)}
        values["label2id"] = {name: i for i, name in enumerate(labels)}
        if metadata.multi_label:
            values["problem_type"] = _MULTI_LABEL
        # Without it, transformers takes a single output for log odds.
        elif metadata.labels == ():
            values["problem_type"] = _REGRESSION
            # A CrossEncoder would make a probability of it.
            activation = {"activation_fn": sentence_transformers.IDENTITY}
            values["sentence_transformers"] = activation
    return values


def _architectures(checkpoint: Checkpoint) -> list[str]:
    """Returns the class for the head, or two if the head is ambiguous."""
    present = heads.present(checkpoint.heads, checkpoint.metadata)
    classes = [
        head.transformers
        for head in (*present, heads.ENCODER)
        if head.transformers and head.groups <= checkpoint.heads
    ]
    # One of the two objectives of a pretraining has a class of its own.
    if len(classes) == 1 and "cls/predictions" in checkpoint.heads:
        return ["AlbertForMaskedLM"]
    if checkpoint.may_be_choices:
        return [classes[0], str(heads.MULTIPLE_CHOICE.transformers)]
    return classes[:1]
