"""Loads a checkpoint of any format: into a model, or as a new model.

`load_checkpoint` sets all weights of a model, or none. `load_model` builds the
model that a checkpoint belongs to. The format is recognised by the files.
"""

import logging
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np

from albert_tf import checks, files
from albert_tf.checkpoints import (
    checkpoint,
    huggingface,
    keras_hub,
    metadata,
    tf1,
    variable_names,
)
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
_ACCEPTED = (
    "Accepted are: a TF1 checkpoint or one of ours (the path without `.index`, "
    "or its folder), the folder of a run, a Hugging Face folder with "
    "model.safetensors, and a KerasHub preset folder"
)
_CONFIG_ADVICE = "Use the config that the checkpoint was made with."
_HEAD_ADVICE = (
    "Use a checkpoint that has this head, or a model without it. Only training "
    "may start with a random head: --allow_new_heads of run_pretraining.py, in "
    "Python allow_new_heads=True."
)
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle")
_OTHER_FORMATS = (".safetensors", ".h5", ".keras")
_GROUP = re.compile(r"/group_\d+/")
_OBJECTIVES = {"cls/predictions": "mlm", "cls/seq_relationship": "sop"}
# By kind of head: the model, and the heads of a checkpoint that it can load.
_MODELS: Mapping[str, Any] = {
    "encoder": AlbertModel,
    "pretraining": PretrainingModel,
    "classifier": ClassifierModel,
    "multiple_choice": MultipleChoiceModel,
    "span": SpanModel,
    "beam_span": BeamSpanModel,
}
CHECKPOINT_HEADS: Mapping[str, set[str]] = {
    "encoder": set(),
    "pretraining": set(_OBJECTIVES),
    "classifier": {"task"},
    "multiple_choice": {"task"},
    "span": {"cls/squad"},
    "beam_span": {"beam"},
}


def load_checkpoint(
    model: Any,
    path: files.Path,
    *,
    allow_new_heads: bool = False,
    from_group_0: bool = False,
) -> list[str]:
    """Sets all weights of a model from a checkpoint.

    If anything is wrong, no weight is changed.

    Args:
        model: An `AlbertModel`, a `PretrainingModel`, or another Keras model
            made of their layers.
        path: A checkpoint in any format that `recognise` knows.
        allow_new_heads: Whether a head of the model may be missing from the
            checkpoint, or have another shape there because it belongs to
            another task. Such a head keeps its initial weights.
        from_group_0: Whether every group of layers takes the weights of the
            checkpoint's first group. Its other groups are not used.

    Returns:
        Sorted names of the checkpoint's arrays that belong to heads that the
        model does not have.

    Raises:
        FileNotFoundError: There is no checkpoint at the path.
        ValueError: The format is not accepted; the checkpoint is damaged; a
            variable is missing, unexpected, has the wrong shape or is not
            finite; or the checkpoint's config gives the weights another
            meaning.
    """
    where = os.fspath(path)
    wanted = getattr(model, "config", None)
    if recognise(path) == "tf1":
        # The optimizer slots, two thirds of the file, are not read.
        config, weights = tf1.config_beside(path), tf1.read_weights(path)
    else:
        source = read(path, albert_config=wanted)
        config, weights = source.config, source.weights
    if wanted is not None and config is not None:
        checkpoint.check_same_meaning(
            config, wanted, where, may_change_layers=from_group_0
        )
    return assign(
        model,
        weights,
        where,
        allow_new_heads=allow_new_heads,
        from_group_0=from_group_0,
    )


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
            no config, does not have the head, or, without `head`, has heads
            of several tasks or none that is known.
    """
    where = os.fspath(path)
    if where.endswith(".keras"):
        return keras.saving.load_model(files.check_local(path))
    if head is not None:
        checks.check_choice("head", head, tuple(_MODELS))
    source = read(path, albert_config=config)
    if config is not None and source.config is not None:
        checkpoint.check_same_meaning(source.config, config, where)
    config = config or checkpoint.known_config(source)
    head = head or _find_head(source, where)
    heads = CHECKPOINT_HEADS[head]
    if heads and not heads & source.heads:
        raise ValueError(
            f"Checkpoint {where!r} has no head of the kind head={head!r}. Its "
            f"heads are: {', '.join(sorted(source.heads)) or 'none'}. Pass "
            "another head, or leave `head` out."
        )
    model = new_model(head, config, source, dtype=dtype)
    assign(model, _with_pooler(model, source, where), where)
    return model


def new_model(
    head: str, config: AlbertConfig, source: Checkpoint, **arguments: Any
) -> keras.Model:
    """Returns a model with the head that `source` has, but with new weights.

    `head` is as in `load_model`, never None; `arguments` are passed to the
    model's class.
    """
    if head == "pretraining":
        arguments["objectives"] = [
            objective
            for name, objective in _OBJECTIVES.items()
            if name in source.heads
        ]
    if head == "classifier":
        arguments["num_labels"] = len(source.weights["output_bias"])
    model: keras.Model = _MODELS[head](config, **arguments)
    return model


def _find_head(source: Checkpoint, where: str) -> str:
    # Regression and multiple choice have the same weights; only the name of
    # the task tells them apart.
    is_multiple_choice = source.metadata.task in metadata.MULTIPLE_CHOICE_TASKS
    ruled_out = "classifier" if is_multiple_choice else "multiple_choice"
    found = [
        head
        for head, heads in CHECKPOINT_HEADS.items()
        if heads & source.heads and head != ruled_out
    ]
    tasks = [head for head in found if head != "pretraining"]
    if len(tasks) > 1:
        raise ValueError(
            f"Checkpoint {where!r} has the heads of several tasks: "
            f"{', '.join(tasks)}. Pass the one to load, such as "
            f"head={tasks[0]!r}."
        )
    if source.heads and not found:
        raise ValueError(
            f"Checkpoint {where!r} has no head that is known here. Its heads "
            f"are: {', '.join(sorted(source.heads))}. Pass head='encoder' to "
            "load the encoder alone."
        )
    return [*tasks, *found, "encoder"][0]


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
    return source.weights | {
        name: np.asarray(variable)
        for name, variable in named.items()
        if name.startswith(variable_names.POOLER_PREFIX)
    }


def read(
    path: files.Path, *, albert_config: AlbertConfig | None = None
) -> Checkpoint:
    """Reads a checkpoint of any format that `recognise` knows.

    Args:
        path: The checkpoint.
        albert_config: Config that the user has given, if any. It answers what
            is ambiguous in a Hugging Face folder, and replaces no config.

    Raises:
        FileNotFoundError: There is no checkpoint at the path.
        ValueError: The format is not accepted, or the checkpoint is damaged.
    """
    found = recognise(path)
    if found == "huggingface":
        return huggingface.read(path, albert_config=albert_config)
    return (
        keras_hub.read(path) if found == "keras_hub" else tf1.read_folder(path)
    )


def recognise(path: files.Path) -> str:
    """Returns a checkpoint's format: `tf1`, `huggingface` or `keras_hub`.

    Checkpoints of our own runs are TF1 checkpoints.

    Raises:
        ValueError: The files are in another format.
    """
    name = files.check_local(path)
    if huggingface.is_folder(name):
        return "huggingface"
    if keras_hub.is_folder(name):
        return "keras_hub"
    _refuse_other_formats(name)
    return "tf1"


def _refuse_other_formats(path: str) -> None:
    names = os.listdir(path) if os.path.isdir(path) else [path]
    if any(name.endswith(".index") for name in names):
        return
    pickles = [name for name in names if name.endswith(_PICKLES)]
    if pickles and not os.path.isfile(f"{path}.index"):
        raise ValueError(
            f"{path!r} is a pickle ({os.path.basename(pickles[0])}). Pickles "
            "are refused because reading one can run any code. "
            f"{_ACCEPTED}."
        )
    others = [name for name in names if name.endswith(_OTHER_FORMATS)]
    if others:
        raise ValueError(
            f"{path!r} holds {os.path.basename(others[0])}, whose format is "
            f"not supported. {_ACCEPTED}."
        )


def global_step(path: files.Path) -> int:
    """Returns the step at which a checkpoint was saved; 0 if unknown.

    Raises:
        FileNotFoundError: There is no checkpoint at the path.
        ValueError: It is damaged, or in a format that is not accepted.
    """
    if recognise(path) != "tf1":
        return 0
    name = variable_names.GLOBAL_STEP
    if name not in tf1.read_shapes(path):
        return 0
    return int(tf1.read(path, [name])[name])


def assign(
    model: Any,
    weights: Mapping[str, np.ndarray],
    where: str,
    *,
    allow_new_heads: bool = False,
    from_group_0: bool = False,
) -> list[str]:
    """Sets all weights of a model from arrays; see `load_checkpoint`.

    The arrays have TF1 names, and no slots or step counter are among them.
    Messages begin with `where`, the path of their checkpoint.

    Raises:
        ValueError: A variable is missing, unexpected, has the wrong shape or
            is not finite.
    """
    variables = variable_names.variables_by_tf1_name(model.weights)
    if from_group_0:
        weights = _first_group_everywhere(variables, weights)
    if allow_new_heads:
        variables = _without_new_heads(variables, weights, where)
    unused = sorted(set(weights) - set(variables))
    unused_heads = [name for name in unused if variable_names.head_of(name)]
    unexpected = [name for name in unused if name not in unused_heads]
    _check_fit(variables, weights, unexpected, where)
    checkpoint.check_finite({name: weights[name] for name in variables}, where)
    for name, variable in variables.items():
        variable.assign(weights[name])
    if unused_heads:
        _LOGGER.info("%s: unused heads: %s", where, ", ".join(unused_heads))
    return unused_heads


def _first_group_everywhere(
    names: Iterable[str], weights: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    kept = {name: weights[name] for name in weights if not _GROUP.search(name)}
    for name in names:
        source = _GROUP.sub("/group_0/", name)
        if source in weights:
            kept[name] = weights[source]
    return kept


def _without_new_heads(
    variables: Mapping[str, Any], weights: Mapping[str, np.ndarray], where: str
) -> dict[str, Any]:
    head_of = variable_names.head_of
    kept = {"", *map(head_of, weights)} - {
        head_of(name)
        for name, variable in variables.items()
        if name in weights and tuple(variable.shape) != weights[name].shape
    }
    new = [n for n in variables if head_of(n) and head_of(n) not in kept]
    if new:
        _LOGGER.info(
            "%s: randomly initialised heads: %s", where, ", ".join(new)
        )
    return {n: v for n, v in variables.items() if n not in new}


def _check_fit(
    variables: Mapping[str, Any],
    weights: Mapping[str, np.ndarray],
    unexpected: list[str],
    where: str,
) -> None:
    missing = sorted(set(variables) - set(weights))
    wrong_shapes = {
        name: f"{name} has shape {list(weights[name].shape)}, expected "
        f"{list(variable.shape)}"
        for name, variable in variables.items()
        if name in weights and tuple(variable.shape) != weights[name].shape
    }
    for problem, names, shown in (
        ("lacks variables of the model", missing, missing),
        ("has variables that the model lacks", unexpected, unexpected),
        (
            "has variables of another shape than the model's",
            [*wrong_shapes],
            [*wrong_shapes.values()],
        ),
    ):
        if names:
            is_of_head = all(map(variable_names.head_of, names))
            raise ValueError(
                f"Checkpoint {where!r} {problem}, {len(names)} in all: "
                f"{checkpoint.some(shown, '; ')}. "
                f"{_HEAD_ADVICE if is_of_head else _CONFIG_ADVICE}"
            )
