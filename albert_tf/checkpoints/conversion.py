"""Converts a checkpoint: read, merge, warm-start, write, verify.

The output appears as a whole, or not at all.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping

import numpy as np

from albert_tf import config as config_lib
from albert_tf import files
from albert_tf.checkpoints import (
    checkpoint,
    huggingface,
    keras_hub,
    load,
    tf1,
    variable_names,
    vocabulary,
    warm_start,
)
from albert_tf.checkpoints.checkpoint import Checkpoint, Note, Written
from albert_tf.checkpoints.conversion_config import ConversionConfig
from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.span_models import BeamSpanModel

LARGEST_DIFFERENCE = 1e-5
_WRITERS: Mapping[str, Callable[[str, Checkpoint], Written]] = {
    "tf1": tf1.write_released,
    "keras": tf1.write_ours,
    "huggingface": huggingface.write,
    "keras_hub": keras_hub.write,
}
_BATCH_SIZE = 2
_SEQUENCE_LENGTH = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """What a conversion did.

    Args:
        input_format: Format that was read, one of `FORMATS`.
        num_weights: Number of arrays written, without optimizer slots.
        num_parameters: Number of values in them.
        left_out: Names of the arrays that the target format cannot store.
        notes: What else of the input the output, or its readers, lack.
        differences: Largest difference of each output; empty if the
            conversion was not verified.
    """

    input_format: str
    num_weights: int
    num_parameters: int
    left_out: tuple[str, ...]
    notes: tuple[Note, ...]
    differences: Mapping[str, float]


def convert(config: ConversionConfig) -> Summary:
    """Converts a checkpoint.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: The input is damaged or does not match its config; the
            format cannot express the model; the output exists; or
            verification found a difference.
    """
    _check_output(config.output_path)
    source = _read(config)
    target = source
    if config.num_hidden_layers:
        target = warm_start.with_layers(target, config.num_hidden_layers)
    if config.num_hidden_groups:
        target = warm_start.with_groups(target, config.num_hidden_groups)
    if config.parameter_sharing:
        target = warm_start.with_sharing(target, config.parameter_sharing)
    with files.atomic_folder(config.output_path) as folder:
        left_out, notes = _WRITERS[config.output_format](folder, target)
        differences = {}
        if config.verify:
            # Another depth or copied groups are meant to change the outputs.
            reference = source if _keeps_outputs(source, config) else target
            differences = _verify(reference, load.read(folder))
    written = [a for n, a in target.weights.items() if n not in left_out]
    return Summary(
        input_format=_format_of(config.input_path),
        num_weights=len(written),
        num_parameters=sum(array.size for array in written),
        left_out=tuple(left_out),
        notes=(*target.notes, *notes),
        differences=differences,
    )


def _format_of(path: str) -> str:
    """Returns the format of an input, and `keras` for our own checkpoints."""
    found = load.recognise(path)
    return "keras" if found == "tf1" and tf1.is_ours(path) else found


def _check_output(path: str) -> None:
    name = files.check_local(path)
    if os.path.lexists(name) and (not os.path.isdir(name) or os.listdir(name)):
        raise ValueError(
            f"--output_path={name} exists and is not an empty folder. Remove "
            "it, or pass another path."
        )


def _read(config: ConversionConfig) -> Checkpoint:
    """Reads the input, adds what the settings name, and checks the whole."""
    given = None
    if config.albert_config_file:
        given = config_lib.load_config(config.albert_config_file)
    source = load.read(config.input_path, albert_config=given)
    if given is not None and source.config is not None:
        checkpoint.check_same_meaning(source.config, given, config.input_path)
    source = dataclasses.replace(source, config=given or source.config)
    if config.merge_from:
        source = warm_start.merge(
            source, load.read(config.merge_from, albert_config=given)
        )
    checkpoint.check(source, config.input_path)
    source = vocabulary.with_vocabulary(
        source, config.vocabulary, config.do_lower_case
    )
    if source.vocabulary is None:
        text = (
            "vocabulary (there is none beside the input: pass --spm_model_file "
            "or --vocab_file)"
        )
        notes = *source.notes, Note("left out", text)
        source = dataclasses.replace(source, notes=notes)
    return _with_null_from_cls(source) if config.null_from_cls else source


def _with_null_from_cls(source: Checkpoint) -> Checkpoint:
    if "cls/squad" not in source.heads:
        raise ValueError(
            "--null_from_cls is for question answering heads. Heads of the "
            f"input: {', '.join(sorted(source.heads)) or 'none'}. Leave it out."
        )
    known = dataclasses.replace(source.metadata, null_from_cls=True)
    return dataclasses.replace(source, metadata=known)


def _keeps_outputs(source: Checkpoint, config: ConversionConfig) -> bool:
    shape = checkpoint.known_config(source)
    return config.num_hidden_layers in (None, shape.num_hidden_layers) and (
        config.num_hidden_groups is None or shape.num_hidden_groups == 1
    )


def _verify(source: Checkpoint, written: Checkpoint) -> dict[str, float]:
    differences = output_differences(source, written)
    # Written so that NaN counts as a difference.
    wrong = {
        name: difference
        for name, difference in differences.items()
        if not difference <= LARGEST_DIFFERENCE
    }
    if wrong:
        listed = ", ".join(f"{n} by {d:.3g}" for n, d in wrong.items())
        raise ValueError(
            "The outputs of the written weights differ from the input's: "
            f"{listed} (allowed is {LARGEST_DIFFERENCE:g}). The output was "
            "removed."
        )
    return differences


def output_differences(
    first: Checkpoint, second: Checkpoint
) -> dict[str, float]:
    """Returns the largest difference of each output of two checkpoints.

    Outputs that only one of them has are not compared.
    """
    ours, theirs = outputs(first), outputs(second)
    return {
        name: float(np.max(np.abs(ours[name] - theirs[name])))
        for name in ours
        if name in theirs
    }


def outputs(
    source: Checkpoint, batch: Mapping[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Runs a batch through our layers with the weights of a checkpoint.

    Args:
        source: A checkpoint with a config, with or without a pooler.
        batch: Inputs of `PretrainingModel`; None for a fixed batch. The span
            heads may answer with any token, given an answer that starts at 0.

    Returns:
        Float32 arrays: `sequence_output` `[B, S, H]`; if there is a pooler,
        `pooled_output` `[B, H]`; and the logits of all heads that the
        checkpoint has.
    """
    config = checkpoint.known_config(source)
    batch = _fixed_batch(config) if batch is None else batch
    weights = dict(source.weights)
    if not source.has_pooler:
        kernel, bias = (row.tf1 for row in variable_names.POOLER)
        weights[kernel] = np.zeros((config.hidden_size, config.hidden_size))
        weights[bias] = np.zeros(config.hidden_size)
    model = AlbertModel(config)
    load.assign(model, _part(weights, ""), "the checkpoint")
    encoded = model(batch)
    found = {"sequence_output": np.asarray(encoded["sequence_output"])}
    if source.has_pooler:
        found["pooled_output"] = np.asarray(encoded["pooled_output"])
    if "cls/predictions" in source.heads:
        masked_lm = PretrainingModel(config, objectives=["mlm"])
        part = _part(weights, "", "cls/predictions")
        load.assign(masked_lm, part, "the checkpoint")
        logits = masked_lm(batch)["masked_lm_logits"]
        found["masked_lm_logits"] = np.asarray(logits)
    if "beam" in source.heads:
        spans = BeamSpanModel(config)
        load.assign(spans, _part(weights, "", "beam"), "the checkpoint")
        found |= _span_outputs(spans, batch)
    return found | _linear_heads(found, weights)


def _fixed_batch(config: AlbertConfig) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    length = min(_SEQUENCE_LENGTH, config.max_position_embeddings)
    shape = _BATCH_SIZE, length
    mask = np.ones(shape, np.int32)
    mask[1, (length + 1) // 2 :] = 0
    types = min(2, config.type_vocab_size)
    positions = np.arange(length, dtype=np.int32)
    return {
        "input_ids": rng.integers(0, config.vocab_size, shape, np.int32),
        "input_mask": mask,
        "segment_ids": rng.integers(0, types, shape, np.int32),
        "masked_lm_positions": np.tile(positions, (_BATCH_SIZE, 1)),
    }


def _part(
    weights: Mapping[str, np.ndarray], *heads: str
) -> dict[str, np.ndarray]:
    return {
        name: array
        for name, array in weights.items()
        if variable_names.head_of(name) in heads
    }


def _span_outputs(
    model: BeamSpanModel, batch: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    input_ids = np.asarray(batch["input_ids"])
    targets = {
        "p_mask": np.zeros(input_ids.shape, np.float32),
        "start_positions": np.zeros(len(input_ids), np.int32),
    }
    answers = model(dict(batch) | targets, teacher_forcing=True)
    return {name: np.asarray(array) for name, array in answers.items()}


def _linear_heads(
    found: Mapping[str, np.ndarray], weights: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns the logits of the heads that are a single output layer."""
    heads = {
        "sentence_order_logits": ("cls/seq_relationship/", "pooled_output"),
        "task_logits": ("", "pooled_output"),
        "span_logits": ("cls/squad/", "sequence_output"),
    }
    return {
        name: found[source] @ weights[f"{prefix}output_weights"].T
        + weights[f"{prefix}output_bias"]
        for name, (prefix, source) in heads.items()
        if f"{prefix}output_weights" in weights and source in found
    }
