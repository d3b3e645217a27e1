"""Builds the model that a checkpoint belongs to, with its weights.

Data flow: path -> checkpoint -> heads -> [this file] -> Keras model.

Floor: checkpoints.
"""

import logging
import os
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from albert_tf import checks, files
from albert_tf.checkpoints import checkpoint, load, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel

_LOGGER = logging.getLogger(__name__)
_KERAS_FILE = ".keras"
_OBJECTIVES = {"cls/predictions": "mlm", "cls/seq_relationship": "sop"}
# The model of each head, and which heads of a checkpoint it can load.
_MODELS: Mapping[str, Any] = {
    "encoder": AlbertModel,
    "pretraining": PretrainingModel,
    "classifier": ClassifierModel,
    "multiple_choice": MultipleChoiceModel,
    "span": SpanModel,
    "beam_span": BeamSpanModel,
}
_CHECKPOINT_HEADS: Mapping[str, set[str]] = {
    "pretraining": set(_OBJECTIVES),
    "classifier": {"task"},
    "multiple_choice": {"task"},
    "span": {"cls/squad"},
    "beam_span": {"beam"},
}
# Regression and multiple choice have the same weights; only the name of the
# task tells them apart.
_MULTIPLE_CHOICE_TASKS = ("race",)


def load_model(
    path: files.Path,
    *,
    head: str | None = None,
    config: AlbertConfig | None = None,
    dtype: Any = None,
) -> keras.Model:
    """Returns the model of a checkpoint, with its weights.

    Args:
        path: A checkpoint in any format: of TF1, of one of our runs (the
            checkpoint or the folder of the run), of Hugging Face or of
            KerasHub; or a `.keras` file of Keras, to which the other
            arguments do not apply.
        head: `encoder`, `pretraining`, `classifier` (regression too),
            `multiple_choice`, `span` (SQuAD 1.1) or `beam_span` (SQuAD 2.0).
            None for the head that the checkpoint has: that of a task, else
            those of pretraining, else none.
        config: Configuration of the model; None for the one beside the
            checkpoint.
        dtype: Keras dtype policy; None for the global policy of Keras.

    Returns:
        An `AlbertModel`, `PretrainingModel`, `ClassifierModel`,
        `MultipleChoiceModel`, `SpanModel` or `BeamSpanModel`.

    Raises:
        FileNotFoundError: There is no checkpoint at the path.
        ValueError: The format is not accepted; the checkpoint is damaged, has
            no config, does not have the head, or has heads of several tasks.
    """
    where = os.fspath(path)
    if where.endswith(_KERAS_FILE):
        return keras.saving.load_model(files.check_local(path))
    if head is not None:
        checks.check_choice("head", head, tuple(_MODELS))
    source = load.read(path)
    config = config or checkpoint.known_config(source)
    head = head or _find_head(source, where)
    if head != "encoder" and not _CHECKPOINT_HEADS[head] & source.heads:
        raise ValueError(
            f"Checkpoint {where!r} has no head of the kind head={head!r}. Its "
            f"heads are: {', '.join(sorted(source.heads)) or 'none'}. Pass "
            "another head, or leave `head` out."
        )
    arguments = _arguments(head, source)
    model = _MODELS[head](config, dtype=dtype, **arguments)
    load.assign(model, _with_pooler(model, source, where), where)
    return model


def _find_head(source: Checkpoint, where: str) -> str:
    is_multiple_choice = source.metadata.task in _MULTIPLE_CHOICE_TASKS
    names = {
        "task": "multiple_choice" if is_multiple_choice else "classifier",
        "cls/squad": "span",
        "beam": "beam_span",
    }
    found = [names[head] for head in names if head in source.heads]
    if len(found) > 1:
        raise ValueError(
            f"Checkpoint {where!r} has the heads of several tasks: "
            f"{', '.join(found)}. Pass the one to load, such as "
            f"head={found[0]!r}."
        )
    if found:
        return found[0]
    return "pretraining" if source.heads else "encoder"


def _arguments(head: str, source: Checkpoint) -> dict[str, Any]:
    """Returns what the model needs to know of its head."""
    if head == "pretraining":
        kept = [name for name in _OBJECTIVES if name in source.heads]
        return {"objectives": [_OBJECTIVES[name] for name in kept]}
    if head == "classifier":
        return {"num_labels": len(source.weights["output_bias"])}
    return {}


def _with_pooler(
    model: keras.Model, source: Checkpoint, where: str
) -> Mapping[str, np.ndarray]:
    """Adds the model's initial pooler to weights without one."""
    if source.has_pooler:
        return source.weights
    _LOGGER.warning(
        "%s has no pooler: do not use `pooled_output` before training it", where
    )
    named = variable_names.variables_by_tf1_name(model.weights)
    prefix = variable_names.POOLER_PREFIX
    return source.weights | {
        name: np.asarray(variable)
        for name, variable in named.items()
        if name.startswith(prefix)
    }
