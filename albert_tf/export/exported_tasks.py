"""The model and the signatures of each task.

Data flow: checkpoint, settings -> [this file] -> model -> signatures.
Floor: export.
"""

from typing import Any

import keras

from albert_tf.checkpoints import metadata
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.export import (
    classifier_signatures,
    encoder_signatures,
    race_signatures,
    squad_signatures,
)
from albert_tf.export.export_config import ExportConfig
from albert_tf.export.exported_encoder import ExportedWeights
from albert_tf.export.exported_text import ExportedText
from albert_tf.export.signature import Signature
from albert_tf.export.span_search import BeamScorer, LogitScorer, SpanScorer
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel
from albert_tf.tasks.race.examples import ChoiceLengths
from albert_tf.tasks.squad.predictions import SpanLimits
from albert_tf.tasks.squad.windows import WindowLengths

_OBJECTIVES = {"cls/predictions": "mlm", "cls/seq_relationship": "sop"}
_KERAS_DTYPES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
# Heads: of GLUE and RACE, and of the two versions of SQuAD.
_TASK, _SPAN, _BEAM = "task", "cls/squad", "beam"
_HEADS = {"classifier": (_TASK,), "race": (_TASK,), "squad": (_SPAN, _BEAM)}


def check_lengths(config: ExportConfig) -> None:
    """Checks that the lengths of the task fit into the sequence length.

    Raises:
        ValueError: They do not.
    """
    if config.task == "race":
        _choice_lengths(config)
    if config.task == "squad":
        _window_lengths(config)


def make_model(
    config: ExportConfig, source: Checkpoint, albert_config: AlbertConfig
) -> keras.Model:
    """Makes a model for the task with the heads of `source` and new weights.

    Raises:
        ValueError: The checkpoint has no head for the task, or a setting of
            the task is impossible.
    """
    dtype = _KERAS_DTYPES[config.precision]
    heads = source.heads
    if config.task == "encoder":
        found = [name for head, name in _OBJECTIVES.items() if head in heads]
        if found:
            return PretrainingModel(
                albert_config, objectives=found, dtype=dtype
            )
        return AlbertModel(albert_config, dtype=dtype)
    wanted = _HEADS[config.task]
    if not heads.intersection(wanted):
        raise ValueError(
            f"{config.init_checkpoint!r} has no head for --task={config.task}. "
            f"Expected: {' or '.join(wanted)}. Received: "
            f"{', '.join(sorted(heads)) or 'none'}. Fine-tune it for the task "
            "first, or pass --task=encoder."
        )
    check_lengths(config)
    if config.task == "squad":
        if _SPAN in heads:
            return SpanModel(albert_config, dtype=dtype)
        if config.tflite:
            raise ValueError(
                "`tflite` is available for version 1.1 of SQuAD. Received: "
                f"{config.init_checkpoint!r}, a model of version 2.0. Leave "
                "it out."
            )
        return BeamSpanModel(
            albert_config,
            start_n_top=config.start_n_top,
            end_n_top=config.end_n_top,
            dtype=dtype,
        )
    num_outputs = len(source.weights["output_bias"])
    if config.task == "classifier":
        return ClassifierModel(
            albert_config, num_labels=num_outputs, dtype=dtype
        )
    if num_outputs > 1:
        raise ValueError(
            f"The head of {config.init_checkpoint!r} has {num_outputs} "
            "outputs, a multiple-choice model has 1. Pass --task=classifier, "
            "or another checkpoint."
        )
    return MultipleChoiceModel(albert_config, dtype=dtype)


def make_signatures(
    config: ExportConfig,
    model: Any,
    weights: ExportedWeights,
    text_graph: ExportedText,
) -> list[Signature]:
    """Traces the signatures of a model made by `make_model`.

    Only the structure of the model is used; its weights are `weights`.

    Raises:
        ValueError: The number of labels is not the model's, or a file beside
            the checkpoint is damaged.
    """
    parts = (model, weights, text_graph)
    if config.task == "squad":
        return _squad_signatures(config, *parts)
    if config.task == "race":
        return race_signatures.make_signatures(
            *parts,
            lengths=_choice_lengths(config),
            num_choices=config.num_choices,
        )
    if config.task == "encoder":
        return encoder_signatures.make_signatures(
            *parts, max_seq_length=config.seq_length
        )
    num_outputs = model.task_head.output_bias.shape[0]
    return classifier_signatures.make_signatures(
        *parts,
        labels=metadata.find_labels(
            config.init_checkpoint, num_outputs, config.labels or None
        ),
        max_seq_length=config.seq_length,
    )


def _squad_signatures(
    config: ExportConfig,
    model: Any,
    weights: ExportedWeights,
    text_graph: ExportedText,
) -> list[Signature]:
    threshold: float | None = None
    scorer: SpanScorer
    if isinstance(model, SpanModel):
        scorer = LogitScorer(model, weights)
    else:
        scorer = BeamScorer(model, weights, text_graph.special_ids.sep)
        threshold = config.null_score_diff_threshold
        if threshold is None:
            found = metadata.read(config.init_checkpoint).null_threshold
            threshold = 0.0 if found is None else found
    return squad_signatures.make_signatures(
        scorer,
        text_graph,
        lengths=_window_lengths(config),
        limits=SpanLimits(
            n_best_size=config.n_best_size,
            max_answer_length=config.max_answer_length,
        ),
        null_threshold=threshold,
    )


def _choice_lengths(config: ExportConfig) -> ChoiceLengths:
    return ChoiceLengths(
        max_seq_length=config.seq_length, max_qa_length=config.max_qa_length
    )


def _window_lengths(config: ExportConfig) -> WindowLengths:
    return WindowLengths(
        max_seq_length=config.seq_length,
        doc_stride=config.doc_stride,
        max_query_length=config.max_query_length,
    )
