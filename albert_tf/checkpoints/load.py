"""Loads a checkpoint of any format: into a model, or as a new model.

`load_checkpoint` sets all weights of a model, or none. `load_model` builds the
model that a checkpoint belongs to. The format is recognised by the files; a
module of another format, or of a model, is imported where it is needed.
"""

import dataclasses
import importlib
import json
import logging
import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np

from albert_tf import checks, files, hub
from albert_tf.checkpoints import (
    beside,
    checkpoint,
    huggingface,
    keras_hub,
    meaning,
    tf1,
    variable_names,
)
from albert_tf.checkpoints.checkpoint import Arrays, Checkpoint
from albert_tf.config import AlbertConfig

_LOGGER = logging.getLogger(__name__)
_OUR_MODULE = re.compile(r'"module": "(albert_tf\.[\w.]+)"')
_GROUP = re.compile(r"/group_\d+/")
_OBJECTIVES = {"cls/predictions": "mlm", "cls/seq_relationship": "sop"}
_HEADS_OVER_POOLER = {"task", "cls/seq_relationship"}
# By kind of model, as in `meaning.CHECKPOINT_HEADS`: its module and class.
_MODELS = {
    "encoder": ("albert_model", "AlbertModel"),
    "pretraining": ("pretraining_model", "PretrainingModel"),
    "classifier": ("sequence_models", "ClassifierModel"),
    "multiple_choice": ("sequence_models", "MultipleChoiceModel"),
    "span": ("span_models", "SpanModel"),
    "beam_span": ("span_models", "BeamSpanModel"),
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
        model: An `AlbertModel`, or another Keras model made of our layers.
        path: A checkpoint in any format that `beside.recognise` knows.
        allow_new_heads: Whether a head of the model may be missing from the
            checkpoint, or have another shape there because it belongs to
            another task. Such a head keeps its initial weights.
        from_group_0: Whether every group of layers takes the weights of the
            checkpoint's first group. Its other groups are not used.

    Returns:
        Sorted names of the checkpoint's arrays that belong to heads that the
        model does not have.
    """
    path = hub.local_folder(path)
    source = read(
        path,
        albert_config=getattr(model, "config", None),
        may_change_layers=from_group_0,
    )
    return assign(
        model,
        with_pooler(source, model, os.fspath(path)),
        os.fspath(path),
        allow_new_heads=allow_new_heads,
        from_group_0=from_group_0,
    )


def load_model(
    path: files.Path,
    *,
    head: str | None = None,
    num_labels: int | None = None,
    config: AlbertConfig | None = None,
    dtype: Any = None,
) -> keras.Model:
    """Returns the model of a checkpoint, with its weights.

    Args:
        path: A checkpoint in any format: of TF1, of one of our runs (the
            checkpoint or the folder of the run), of Hugging Face or of
            KerasHub; `hf://owner/name`, of Hugging Face's hub; or a `.keras`
            file of Keras, which is loaded as it is without other arguments.
        head: `encoder`, `pretraining`, `classifier` (regression too),
            `multiple_choice`, `span` (SQuAD 1.1) or `beam_span` (SQuAD 2.0).
            None for the head that the checkpoint has: that of a task, else
            those of pretraining, else none.
        num_labels: Makes a classifier with so many labels, whose head is new
            unless the checkpoint has one of this size; 1 for regression.
        config: Configuration of the model; None for the one beside the
            checkpoint.
        dtype: Keras dtype policy; None for the global policy of Keras.

    Returns:
        An `AlbertModel`, `PretrainingModel`, `ClassifierModel`,
        `MultipleChoiceModel`, `SpanModel` or `BeamSpanModel`.
    """
    path = hub.local_folder(path)
    where = os.fspath(path)
    is_whole = (head, num_labels, config, dtype) == (None,) * 4
    if is_whole and beside.recognise(path) == beside.KERAS_FILE:
        return _load_keras_file(where)
    if head is not None:
        checks.check_choice("head", head, tuple(_MODELS))
    if num_labels is not None:
        checks.check_integer("num_labels", num_labels, at_least=1)
        checks.check_choice("head", head or "classifier", ("classifier",))
        head = "classifier"
    source = read(path, albert_config=config)
    head = head or meaning.find_head(source, where)
    # Before a model is made, of any size that a config may have.
    checkpoint.check_shapes(source, where)
    sizes = {} if num_labels is None else {"num_labels": num_labels}
    model = new_model(
        head, checkpoint.known_config(source), source, dtype=dtype, **sizes
    )
    weights = with_pooler(source, model, where)
    assign(model, weights, where, allow_new_heads=num_labels is not None)
    known = source.metadata.known()
    if num_labels not in (None, len(source.arrays.get("output_bias", ()))):
        # The rest is about the head, which is new.
        kept = known.keys() & {"do_lower_case", "tokenizer_hash"}
        known = {name: known[name] for name in kept}
    model.metadata = json.loads(json.dumps(known))
    return model


def new_model(
    head: str, config: AlbertConfig, source: Checkpoint, **arguments: Any
) -> keras.Model:
    """Returns a model with the head that `source` has, but with new weights.

    `head` is as in `load_model`, never None; `arguments` are passed to the
    model's class.
    """
    if head == "pretraining":
        arguments["objectives"] = objectives_of(source)
    if head == "classifier":
        arguments.setdefault(
            "num_labels", len(source.arrays.get("output_bias", [0]))
        )
    module_name, class_name = _MODELS[head]
    module = importlib.import_module(f"albert_tf.modeling.{module_name}")
    model: keras.Model = getattr(module, class_name)(config, **arguments)
    return model


def objectives_of(source: Checkpoint) -> list[str]:
    """Returns the objectives of a pretraining head; all if it has none."""
    return [
        objective
        for name, objective in _OBJECTIVES.items()
        if name in source.heads
    ] or [*_OBJECTIVES.values()]


def with_pooler(
    source: Checkpoint, model: keras.Model, where: str
) -> dict[str, np.ndarray]:
    """Returns the weights, with the model's own pooler if they have none.

    Not if a head was trained on the pooler that is missing.
    """
    if source.has_pooler or source.heads & _HEADS_OVER_POOLER:
        return source.weights
    _LOGGER.warning(
        "%s has no pooler: do not use `pooled_output` before training it",
        where,
    )
    named = variable_names.variables_by_tf1_name(model.weights)
    return source.weights | {
        name: np.asarray(variable)
        for name, variable in named.items()
        if name.startswith(variable_names.POOLER_PREFIX)
    }


def read(
    path: files.Path,
    *,
    albert_config: AlbertConfig | None = None,
    may_change_layers: bool = False,
    with_slots: bool = False,
) -> Checkpoint:
    """Reads a checkpoint of any format that `beside.recognise` knows, once.

    `albert_config`, if known, is that of the model that is to have the weights,
    which `may_change_layers`. It replaces the one beside the checkpoint, and
    answers what is ambiguous in a Hugging Face folder. Optimizer slots and the
    step are read only `with_slots`.
    """
    source = beside.describe(path, albert_config=albert_config)
    arrays = _read_arrays(path, source.config, with_slots=with_slots)
    source = dataclasses.replace(source, arrays=arrays)
    if albert_config is None:
        return source
    if source.config is not None:
        meaning.check_config(
            source.config,
            albert_config,
            os.fspath(path),
            may_change_layers=may_change_layers,
        )
    return dataclasses.replace(source, config=albert_config)


def _read_arrays(path: files.Path, config: Any, *, with_slots: bool) -> Arrays:
    format_name = beside.recognise(path)
    if format_name == beside.KERAS_FILE:
        return _read_keras_file(os.fspath(path))
    if format_name == beside.LITERT:
        raise ValueError(
            f"{os.fspath(path)!r} is an export for LiteRT, which only "
            "`load_predictor` runs. Pass the checkpoint it was made of."
        )
    if format_name == "tf1":
        return tf1.read(path) if with_slots else tf1.read_weights(path)
    module = huggingface if format_name == "huggingface" else keras_hub
    with beside.naming(path):
        return module.read_arrays(path, config)


def _read_keras_file(path: str) -> Arrays:
    with beside.naming(path):
        model = _load_keras_file(path, compile=False)
    if any(layer.quantization_mode for layer in model._flatten_layers()):
        raise ValueError(
            f"{path!r} is quantized: load it without other arguments, and use "
            "its `export`; or pass the file from before `quantize`."
        )
    named = variable_names.variables_by_tf1_name(model.weights)
    return {name: np.asarray(value) for name, value in named.items()}


def _load_keras_file(path: str, **options: Any) -> keras.Model:
    """Imports our classes in a `.keras` file, so that Keras knows them."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            text = archive.read("config.json").decode()
        for name in _OUR_MODULE.findall(text):
            importlib.import_module(name)
    model: keras.Model = keras.saving.load_model(path, **options)
    return model


def global_step(path: files.Path) -> int:
    """Returns the step at which a checkpoint was saved; 0 if unknown."""
    return tf1.read_step(path) if beside.recognise(path) == "tf1" else 0


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
    Messages name `where`, the path of their checkpoint.
    """
    variables = variable_names.variables_by_tf1_name(model.weights)
    if from_group_0:
        weights = _first_group_everywhere(variables, weights)
    if allow_new_heads:
        variables = _without_new_heads(variables, weights, where)
    shapes = {name: tuple(v.shape) for name, v in variables.items()}
    checkpoint.check_fit(weights, shapes, where)
    checkpoint.check_values({name: weights[name] for name in variables}, where)
    for name, variable in variables.items():
        variable.assign(weights[name])
    unused = sorted(set(weights) - set(variables))
    heads = {*map(variable_names.head_of, unused)} - {*_OBJECTIVES}
    if heads:
        _LOGGER.info("%s: unused heads: %s", where, ", ".join(sorted(heads)))
    return unused


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
