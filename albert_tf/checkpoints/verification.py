"""Whether two checkpoints are one model: both through our layers, compared.

Floor: checkpoints.
"""

from collections.abc import Mapping

import numpy as np

from albert_tf.checkpoints import assignment, checkpoint, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.beam_span_model import BeamSpanModel
from albert_tf.modeling.pretraining_model import PretrainingModel

LARGEST_DIFFERENCE = 1e-5
_BATCH_SIZE = 2
_SEQUENCE_LENGTH = 16


def differences(first: Checkpoint, second: Checkpoint) -> dict[str, float]:
    """Returns the largest difference between two models, by output.

    Args:
        first: Any checkpoint with a config.
        second: Another; outputs that only one has are not compared.
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
    """Returns what a model answers to a batch, by name of the output.

    Args:
        source: With a config; the pooler may be absent.
        batch: What `PretrainingModel` takes; None for a fixed one. Answers
            are looked for everywhere, and given that they start at 0.

    Returns:
        Float32 arrays: `sequence_output` `[B, S, H]`; with a pooler,
        `pooled_output` `[B, H]`; and the logits of the heads that there are.
    """
    config = checkpoint.known_config(source)
    has_pooler = any(
        name.startswith(variable_names.POOLER_PREFIX) for name in source.weights
    )
    weights = dict(source.weights)
    if not has_pooler:
        weights |= _empty_pooler(config)
    model = AlbertModel(config)
    assignment.assign(model, _part(weights, ""), "the checkpoint")
    batch = _fixed_batch(config) if batch is None else batch
    encoded = model(batch)
    found = {"sequence_output": np.asarray(encoded["sequence_output"])}
    if has_pooler:
        found["pooled_output"] = np.asarray(encoded["pooled_output"])
    if "cls/predictions" in source.heads:
        masked_lm = PretrainingModel(config, objectives=["mlm"])
        assignment.assign(
            masked_lm, _part(weights, "", "cls/predictions"), "the checkpoint"
        )
        logits = masked_lm(batch)["masked_lm_logits"]
        found["masked_lm_logits"] = np.asarray(logits)
    if "beam" in source.heads:
        spans = BeamSpanModel(config)
        assignment.assign(spans, _part(weights, "", "beam"), "the checkpoint")
        found |= _span_outputs(spans, batch)
    return found | _linear_heads(found, weights)


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


def _part(
    weights: Mapping[str, np.ndarray], *heads: str
) -> dict[str, np.ndarray]:
    return {
        name: array
        for name, array in weights.items()
        if variable_names.head_of(name) in heads
    }


def _empty_pooler(config: AlbertConfig) -> dict[str, np.ndarray]:
    width = config.hidden_size
    return {
        f"{variable_names.POOLER_PREFIX}dense/kernel": np.zeros((width, width)),
        f"{variable_names.POOLER_PREFIX}dense/bias": np.zeros(width),
    }


def _linear_heads(
    found: Mapping[str, np.ndarray], weights: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
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


def _fixed_batch(config: AlbertConfig) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    length = min(_SEQUENCE_LENGTH, config.max_position_embeddings)
    shape = _BATCH_SIZE, length
    mask = np.ones(shape, np.int32)
    mask[1, (length + 1) // 2 :] = 0
    types = min(2, config.type_vocab_size)
    return {
        "input_ids": rng.integers(0, config.vocab_size, shape, np.int32),
        "input_mask": mask,
        "segment_ids": rng.integers(0, types, shape, np.int32),
        "masked_lm_positions": np.tile(
            np.arange(length, dtype="int32"), (2, 1)
        ),
    }
