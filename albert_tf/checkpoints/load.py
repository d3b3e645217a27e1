"""Loads a checkpoint of any format: into a model, or as a new model."""

import dataclasses
import json
import logging
import os
import re
from collections.abc import Mapping

import keras
import numpy as np

from albert_tf import checks, files, registry
from albert_tf.checkpoints import (
    discovery,
    heads,
    variable_names,
)
from albert_tf.checkpoints.checkpoint import Arrays, Checkpoint
from albert_tf.checkpoints.heads import Head
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig

_LOGGER = logging.getLogger(__name__)
_HEAD_ADVICE = (
    "Use a checkpoint that has this head, or a model without it. Only training "
    "may start with a random head: --allow_new_heads of run_pretraining.py, in "
    "Python allow_new_heads=True."
)
_GROUP = re.compile(r"/group_\d+/")


def load_checkpoint(
    model: keras.Model,
    source: files.Path | Checkpoint,
    *,
    allow_new_heads: bool = False,
    from_group_0: bool = False,
) -> list[str]:
    """Sets all weights of a model from a checkpoint.

    If anything is wrong, no weight is changed.

    Args:
        model: An `AlbertModel`, or another Keras model made of our layers.
        source: A path, in any format of `discovery`, or an opened checkpoint.
        allow_new_heads: Whether a head that is missing from the checkpoint, or
            has another shape there, keeps its initial weights.
        from_group_0: Whether every group of layers takes the weights of the
            checkpoint's first group. Its other groups are not used.

    Returns:
        Sorted names of unused arrays: of heads that the model does not have.
    """
    config = getattr(model, "config", None)
    options = {"may_change_layers": from_group_0}
    if isinstance(source, Checkpoint):
        checkpoint = discovery.with_config(source, config, **options)
    else:
        checkpoint = discovery.open(source, albert_config=config, **options)
    variables = variable_names.variables_by_tf1_name(model.weights)
    wanted = _without_new_pooler(variables, checkpoint)
    weights = checkpoint.weights
    if from_group_0:
        origins = {name: _GROUP.sub("/group_0/", name) for name in variables}
        weights = {
            **{n: a for n, a in weights.items() if not _GROUP.search(n)},
            **{n: weights[o] for n, o in origins.items() if o in weights},
        }
    if allow_new_heads:
        wanted = _without_new_heads(wanted, weights, checkpoint.path)
    shapes = {name: tuple(v.shape) for name, v in wanted.items()}
    check_fit(weights, shapes, checkpoint.path)
    check_values({name: weights[name] for name in wanted}, checkpoint.path)
    for name, variable in wanted.items():
        variable.assign(weights[name])
    unused = sorted(set(weights) - set(wanted))
    others = {*map(variable_names.head_of, unused)} - {*heads.OBJECTIVES}
    if others:
        names = ", ".join(sorted(others))
        _LOGGER.info("%s: unused heads: %s", checkpoint.path, names)
    return unused


def make_model(
    checkpoint: Checkpoint,
    head: Head,
    *,
    allow_new_heads: bool = False,
    **arguments: object,
) -> tuple[keras.Model, list[str]]:
    """Makes a model of a head; see `load_checkpoint` for the rest."""
    # Before a model is made, of any size that a config may have.
    check_shapes(checkpoint)
    model = head.make_model(checkpoint.known_config, checkpoint, **arguments)
    unused = load_checkpoint(model, checkpoint, allow_new_heads=allow_new_heads)
    return model, unused


def load_model(
    path: files.Path,
    *,
    head: str | Head | None = None,
    num_labels: int | None = None,
    config: AlbertConfig | None = None,
    dtype: str | keras.DTypePolicy | None = None,
) -> keras.Model:
    """Returns the model of a checkpoint, with its weights.

    Args:
        path: A checkpoint in any format: of TF1, of a run (or its folder), of
            Hugging Face (also `hf://owner/name`) or of KerasHub; or a `.keras`
            file of Keras, which is loaded as it is without other arguments.
        head: `encoder`, `pretraining`, `classifier` (regression too),
            `multiple_choice`, `span` (SQuAD 1.1), `beam_span` (SQuAD 2.0) or
            `token_classifier`; or the record of another head. None for what the
            checkpoint has: the head of a task, else the pretraining heads, else
            none.
        num_labels: Makes a classifier, of texts or of tokens, with so many
            labels, whose head is new unless the checkpoint has one of this
            size; 1 for regression.
        config: Shape of the model; None for the config of the checkpoint.
        dtype: Keras dtype policy; None for the global policy of Keras.

    Returns:
        An `AlbertModel`, `PretrainingModel`, `ClassifierModel`,
        `MultipleChoiceModel`, `SpanModel`, `BeamSpanModel` or
        `TokenClassifierModel`.
    """
    is_whole = (head, num_labels, config, dtype) == (None,) * 4
    ending = os.path.splitext(path)[1]
    if is_whole and ending in registry.MODEL_FILES:
        load_file = registry.load(registry.MODEL_FILES[ending])
        model: keras.Model = load_file(files.check_local(path))
        return model
    checkpoint, sizes = discovery.open(path, albert_config=config), {}
    if num_labels is None:
        head = checkpoint.head(head)
    else:
        checks.check_integer("num_labels", num_labels, at_least=1)
        head = heads.named(head or heads.CLASSIFIER)
        names = heads.CLASSIFIER.name, heads.TOKEN_CLASSIFIER.name
        checks.check_choice("head", head.name, names)
        sizes["num_labels"] = num_labels
    model, _ = make_model(
        checkpoint, head, allow_new_heads=bool(sizes), dtype=dtype, **sizes
    )
    metadata = dataclasses.replace(checkpoint.metadata, head=None)
    if num_labels not in (None, len(checkpoint.arrays.get("output_bias", ()))):
        # The other facts are about the head, which is new.
        metadata = Metadata(
            tokenizer_hash=metadata.tokenizer_hash,
            **metadata.tokenizer_settings,
        )
    model.metadata = json.loads(json.dumps(metadata.known()))
    return model


def _without_new_pooler(
    variables: dict[str, keras.Variable], checkpoint: Checkpoint
) -> dict[str, keras.Variable]:
    """Returns the variables to load, without a missing and unused pooler."""
    present = heads.present(checkpoint.heads, checkpoint.metadata)
    is_used = any(head.over_pooler & checkpoint.heads for head in present)
    if checkpoint.has_pooler or is_used:
        return variables
    text = "%s has no pooler: do not use `pooled_output` before training it"
    _LOGGER.warning(text, checkpoint.path)
    prefix = variable_names.POOLER_PREFIX
    return {n: v for n, v in variables.items() if not n.startswith(prefix)}


def _without_new_heads(
    variables: Mapping[str, keras.Variable], weights: Arrays, path: str
) -> dict[str, keras.Variable]:
    head_of = variable_names.head_of
    stored = {"", *map(head_of, weights)} - {
        head_of(name)
        for name, variable in variables.items()
        if name in weights and tuple(variable.shape) != weights[name].shape
    }
    new = [n for n in variables if head_of(n) and head_of(n) not in stored]
    if new:
        _LOGGER.info("%s: randomly initialised heads: %s", path, ", ".join(new))
    return {n: v for n, v in variables.items() if n not in new}


def check_shapes(checkpoint: Checkpoint) -> None:
    """Checks that the weights, if need be without heads, match the config."""
    config = checkpoint.known_config
    rows = [*variable_names.EMBEDDINGS]
    if checkpoint.has_pooler:
        rows += variable_names.POOLER
    if config.has_projection:
        rows += variable_names.PROJECTION
    head_of = variable_names.head_of
    rows += [
        r for r in variable_names.HEADS if head_of(r.tf1) in checkpoint.heads
    ]
    names = {row.tf1 for row in rows}
    for half, sublayer in variable_names.SUBLAYERS.items():
        names |= {
            row.tf1.format(set=weight_set, inner=inner)
            for row in sublayer
            for weight_set in range(config.num_weight_sets(half))
            for inner in range(config.inner_group_num)
        }
    shapes = {name: variable_names.shape_of(name, config) for name in names}
    check_fit(checkpoint.weights, shapes, checkpoint.path)


def check_fit(
    weights: Arrays, shapes: Mapping[str, tuple[int | None, ...]], path: str
) -> None:
    """Checks that weights are all that a model needs, and nothing else.

    `shapes` are the shapes of the model's variables, where None stands for any
    length. Other heads may be among the weights. The message names the path.
    """
    problems = {name: "missing" for name in shapes if name not in weights}
    for name, array in weights.items():
        if name not in shapes and not variable_names.head_of(name):
            problems[name] = "unexpected"
        elif name in shapes:
            shape, expected = [*array.shape], shapes[name]
            pairs = zip(shape, expected, strict=False)
            fits = [length in (number, None) for number, length in pairs]
            if len(shape) != len(expected) or not all(fits):
                wanted = ["any" if n is None else n for n in expected]
                problems[name] = f"of shape {shape}, but must be {wanted}"
    if problems:
        is_of_head = all(map(variable_names.head_of, problems))
        texts = (f"{name} is {problems[name]}" for name in sorted(problems))
        raise ValueError(
            f"Checkpoint {path!r} does not have the weights of the model "
            f"({len(problems)} variables): {checks.listed(texts)}. "
            f"{_HEAD_ADVICE if is_of_head else discovery.CONFIG_ADVICE}"
        )


def check_values(arrays: Arrays, path: str) -> None:
    """Checks that weights have no NaN and no infinity."""
    wrong = [name for name, a in arrays.items() if not np.isfinite(a).all()]
    if wrong:
        raise ValueError(
            f"{path!r} has values that are not finite numbers (NaN or "
            f"infinity), in {checks.listed(sorted(wrong))}. Pass another one."
        )
