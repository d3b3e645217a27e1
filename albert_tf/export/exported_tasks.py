"""The model and the signatures of each task.

Data flow: checkpoint, settings -> [this file] -> model -> signatures.
"""

import dataclasses
import itertools
from typing import Any

import keras

from albert_tf.checkpoints import load, meaning
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig
from albert_tf.export import (
    encoder_signatures,
    sequence_signatures,
    squad_signatures,
)
from albert_tf.export.export_config import ExportConfig
from albert_tf.export.exported_encoder import ExportedWeights
from albert_tf.export.exported_text import TextGraph
from albert_tf.export.signature import Signature
from albert_tf.export.span_search import BeamScorer, LogitScorer, SpanScorer
from albert_tf.modeling.span_models import SpanModel
from albert_tf.tasks import head_flags

_KERAS_DTYPES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
# The heads of `checkpoints.load` that serve a task, the preferred one first.
_HEADS = {
    "encoder": ("pretraining",),
    "classifier": ("classifier",),
    "squad": ("span", "beam_span"),
    "race": ("multiple_choice",),
}


def make_model(
    config: ExportConfig, source: Checkpoint, albert_config: AlbertConfig
) -> keras.Model:
    """Makes a model for the task with the heads of `source` and new weights.

    Raises:
        ValueError: The checkpoint has no head for the task, or a number of
            beams is impossible.
    """
    head = _find_head(config, source)
    beams = {}
    if head == "beam_span":
        beams = {
            "start_n_top": config.start_n_top,
            "end_n_top": config.end_n_top,
        }
    dtype = _KERAS_DTYPES[config.precision]
    return load.new_model(head, albert_config, source, dtype=dtype, **beams)


def _find_head(config: ExportConfig, source: Checkpoint) -> str:
    found = [
        head
        for head in _HEADS[config.task]
        if meaning.CHECKPOINT_HEADS[head] & source.heads
    ]
    if not found and config.task == "encoder":
        return "encoder"
    if not found:
        names = (meaning.CHECKPOINT_HEADS[head] for head in _HEADS[config.task])
        raise ValueError(
            f"{config.init_checkpoint!r} has no head for --task={config.task}. "
            f"Expected: {' or '.join(itertools.chain(*names))}. Received: "
            f"{', '.join(sorted(source.heads)) or 'none'}. Fine-tune it for "
            "the task first, or pass --task=encoder."
        )
    if found[0] == "beam_span" and config.tflite:
        raise ValueError(
            "`tflite` is available for version 1.1 of SQuAD. Received: "
            f"{config.init_checkpoint!r}, a model of version 2.0. Leave "
            "it out."
        )
    if found[0] == "beam_span" and config.null_from_cls:
        raise ValueError(
            "`null_from_cls` is for heads of two logits a token. Received: "
            f"{config.init_checkpoint!r}, whose head says itself whether there "
            "is an answer. Leave it out."
        )
    num_outputs = len(source.weights.get("output_bias", ()))
    if found[0] == "multiple_choice" and num_outputs > 1:
        raise ValueError(
            f"The head of {config.init_checkpoint!r} has {num_outputs} "
            "outputs, a multiple-choice model has 1. Pass --task=classifier, "
            "or another checkpoint."
        )
    return found[0]


def make_signatures(
    config: ExportConfig,
    known: Metadata,
    model: Any,
    weights: ExportedWeights,
    text_graph: TextGraph,
) -> list[Signature]:
    """Traces the signatures of a model made by `make_model`.

    Only the structure of the model is used; its weights are `weights`.
    `known` is what is known of the checkpoint.

    Raises:
        ValueError: The labels are not the model's, or its examples cannot
            leave early.
    """
    parts = (model, weights, text_graph)
    head_flags.check_patience(config.exit_patience, model.config)
    if config.task == "squad":
        return _squad_signatures(config, known, *parts)
    if config.task == "race":
        return sequence_signatures.multiple_choice_signatures(
            *parts,
            lengths=config.choice_lengths(),
            num_choices=config.num_choices,
            exit_patience=config.exit_patience,
        )
    if config.task == "encoder":
        return encoder_signatures.make_signatures(
            *parts, max_seq_length=config.seq_length
        )
    num_outputs = model.task_head.output_bias.shape[0]
    return sequence_signatures.classifier_signatures(
        *parts,
        labels=meaning.find_labels(
            known,
            num_outputs,
            where=config.init_checkpoint,
            given=config.labels or None,
        ),
        known=dataclasses.replace(
            known, thresholds=config.thresholds or known.thresholds
        ),
        max_seq_length=config.seq_length,
        exit_patience=config.exit_patience,
    )


def _squad_signatures(
    config: ExportConfig,
    known: Metadata,
    model: Any,
    weights: ExportedWeights,
    text_graph: TextGraph,
) -> list[Signature]:
    scorer: SpanScorer
    null_from_cls = config.null_from_cls or bool(known.null_from_cls)
    if isinstance(model, SpanModel):
        scorer = LogitScorer(model, weights, null_from_cls=null_from_cls)
    else:
        scorer = BeamScorer(model, weights, text_graph.special_ids.sep)
    threshold: float | None = None
    if null_from_cls or isinstance(scorer, BeamScorer):
        threshold = config.null_score_diff_threshold
        if threshold is None:
            threshold = known.null_threshold or 0.0
    return squad_signatures.make_signatures(
        scorer,
        text_graph,
        lengths=config.window_lengths(),
        limits=config.span_limits(),
        null_threshold=threshold,
    )
