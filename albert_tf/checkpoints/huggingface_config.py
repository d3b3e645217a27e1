"""The `config.json` of a Hugging Face folder, and ours.

Source: transformers 5, `models/albert/configuration_albert.py`.
"""

import dataclasses
import logging
import os
from collections.abc import Mapping
from typing import Any

from albert_tf import files
from albert_tf.checkpoints import checkpoint, metadata, vocabulary
from albert_tf.checkpoints.checkpoint import Checkpoint, Note
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig

_LOGGER = logging.getLogger(__name__)
CONFIG_FILE = "config.json"
TOKENIZER_FILE = "tokenizer_config.json"
# Their names of our activations. ALBERT's GELU is the tanh form; what they
# call `gelu` is the exact one, by erf.
_ACTIVATIONS = {
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
# The exact GELU. Published ALBERT configs had it although the models were
# trained with the tanh form (huggingface/transformers, issue 2395).
_EXACT_GELU = "gelu"
# Settings that change the outputs, with the values that are ALBERT's.
_BUILT_IN: Mapping[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
}
# Those of the tokenizer, and of training, which are reported only.
TOKENIZER_SETTINGS = {"keep_accents": False, "remove_space": True}
_CLASSIFIER_DROPOUT = 0.1
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


def notes(folder: str, values: Mapping[str, Any]) -> list[Note]:
    """Returns notes on the settings that only transformers has."""
    tokenizer = files.read_json_object(
        os.path.join(folder, TOKENIZER_FILE), missing_ok=True
    )
    others = {
        name: tokenizer[name]
        for name, ours in TOKENIZER_SETTINGS.items()
        if tokenizer.get(name, ours) != ours
    }
    reason = "ALBERT's text normalization is built in"
    found = checkpoint.notes_of(others, reason)
    dropout = values.get("classifier_dropout_prob", _CLASSIFIER_DROPOUT)
    if dropout != _CLASSIFIER_DROPOUT:
        found += checkpoint.notes_of(
            {"classifier_dropout_prob": dropout},
            "it matters in training only: pass --dropout_prob there",
        )
    return found


def read_config(
    values: Mapping[str, Any], path: str, albert_config: AlbertConfig | None
) -> AlbertConfig:
    """Returns our config for the values of a `config.json`.

    Args:
        values: The values.
        path: The file, for messages.
        albert_config: Config that the user has given, or None; it says whether
            `hidden_act="gelu"` means ALBERT's GELU.

    Raises:
        ValueError: The model is no ALBERT, or one that our config cannot
            express.
    """
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
    fields["hidden_act"] = _activation(values, path, albert_config)
    for name, accepted in _BUILT_IN.items():
        if values.get(name) not in accepted:
            raise ValueError(
                f"{path!r} has {name}={values[name]!r}, which is not supported "
                f"(only {accepted[0]!r} is)."
            )
    config = AlbertConfig.from_dict(fields, where=path)
    check_groups(config)
    return config


def _activation(
    values: Mapping[str, Any], path: str, albert_config: AlbertConfig | None
) -> str:
    activation = values.get("hidden_act", "gelu_new")
    if activation in _ACTIVATIONS:
        return _ACTIVATIONS[activation]
    given = None if albert_config is None else albert_config.hidden_act
    if activation == given == _EXACT_GELU:
        _LOGGER.warning(
            "%s: hidden_act='gelu' is taken as gelu_new, the tanh form, as the "
            "given config says",
            path,
        )
        return _ACTIVATIONS["gelu_new"]
    raise ValueError(
        f"{path!r} has hidden_act={activation!r}, but only "
        f"{', '.join(_ACTIVATIONS)} are supported (gelu is computed by erf in "
        "transformers; ALBERT's is gelu_new, the tanh form). If it is wrong "
        "there, as in some published configs, pass the model's config as "
        "--albert_config_file."
    )


def check_groups(config: AlbertConfig) -> None:
    """Checks that transformers assigns the layers to the same groups.

    Raises:
        ValueError: It does not.
    """
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


def config_values(config: AlbertConfig, source: Checkpoint) -> dict[str, Any]:
    """Returns the values of a `config.json`.

    Args:
        config: Shape of the model, without `parameter_sharing`.
        source: The checkpoint, for its heads, labels and vocabulary.

    Raises:
        ValueError: The labels are not those of the classifier.
    """
    theirs = {ours: name for name, ours in reversed(_ACTIVATIONS.items())}
    values: dict[str, Any] = {
        "architectures": _architectures(source),
        "model_type": "albert",
        **{name: getattr(config, name) for name in _FIELDS},
        "hidden_act": theirs[config.hidden_act],
        "layer_norm_eps": 1e-12,
        # Built into google-research/albert.
        "classifier_dropout_prob": _CLASSIFIER_DROPOUT,
        "tie_word_embeddings": True,
        **_special_ids(source),
    }
    if "task" in source.heads:
        labels = _labels(source)
        values["id2label"] = {str(i): name for i, name in enumerate(labels)}
        values["label2id"] = {name: i for i, name in enumerate(labels)}
        if problem_type := _problem_type(source.metadata):
            values["problem_type"] = problem_type
    return values


def _problem_type(known: Metadata) -> str | None:
    if known.multi_label:
        return metadata.MULTI_LABEL
    # Without it, transformers takes a single output for log odds.
    return metadata.REGRESSION if known.labels == () else None


def _architectures(source: Checkpoint) -> list[str]:
    first = next(
        name for heads, name in _ARCHITECTURES if heads <= source.heads
    )
    if first != _CLASSIFIER or _num_labels(source) > 1:
        return [first]
    # Regression and multiple choice have the same weights.
    if source.metadata.task in metadata.MULTIPLE_CHOICE_TASKS:
        return [metadata.MULTIPLE_CHOICE]
    if _problem_type(source.metadata):
        return [first]
    return [first, metadata.MULTIPLE_CHOICE]


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
    ids = vocabulary.load_tokenizer(source).special_ids
    return {
        "pad_token_id": ids.pad,
        "bos_token_id": ids.cls,
        "eos_token_id": ids.sep,
    }
