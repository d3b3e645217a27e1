"""Which model a task needs, and what it can be asked.

Data flow: checkpoint, job -> model; weights, job -> [this file] -> signatures.
Floor: export.
"""

from collections.abc import Callable
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
from albert_tf.export.export_config import ExportJob
from albert_tf.export.exported_encoder import ServedWeights
from albert_tf.export.signature import Signature
from albert_tf.export.span_scorers import BeamScorer, LogitScorer
from albert_tf.export.squad_signatures import SquadSettings
from albert_tf.export.tokens import TextGraph
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel
from albert_tf.tasks.race.features import ChoiceLengths
from albert_tf.tasks.squad.predictions import SpanLimits
from albert_tf.tasks.squad.windows import WindowLengths

_OBJECTIVES = {"cls/predictions": "mlm", "cls/seq_relationship": "sop"}
_KERAS_DTYPES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
# The head of GLUE and of RACE, those of the versions of SQuAD.
_TASK, _SPAN, _BEAM = "task", "cls/squad", "beam"
_DEFAULT_THRESHOLD = 0.0


def make_model(
    job: ExportJob, source: Checkpoint, config: AlbertConfig
) -> keras.Model:
    """Returns a model for the task, with new weights.

    Args:
        job: The export.
        source: Its heads are the model's.
        config: Shape of the model.

    Raises:
        ValueError: The checkpoint has no head for the task; or the settings
            of the task are impossible.
    """
    return _MODELS[job.task](job, source, config, _KERAS_DTYPES[job.precision])


def make_signatures(
    job: ExportJob,
    model: Any,
    weights: ServedWeights,
    text_graph: TextGraph,
) -> list[Signature]:
    """Traces what a model of `make_model` can be asked.

    Args:
        job: The export, with `max_seq_length`.
        model: Called for its structure.
        weights: Its weights.
        text_graph: Text to ids.

    Raises:
        ValueError: The labels are not the model's, or a file beside the
            checkpoint is damaged.
    """
    return _SIGNATURES[job.task](job, model, weights, text_graph)


def _encoder(
    job: ExportJob, source: Checkpoint, config: AlbertConfig, dtype: str
) -> keras.Model:
    """Returns an encoder with the pretraining heads that there are."""
    del job
    objectives = [
        objective
        for head, objective in _OBJECTIVES.items()
        if head in source.heads
    ]
    if objectives:
        return PretrainingModel(config, objectives=objectives, dtype=dtype)
    return AlbertModel(config, dtype=dtype)


def _classifier(
    job: ExportJob, source: Checkpoint, config: AlbertConfig, dtype: str
) -> keras.Model:
    _check_head(job, source, _TASK)
    number = len(source.weights["output_bias"])
    return ClassifierModel(config, num_labels=number, dtype=dtype)


def _race(
    job: ExportJob, source: Checkpoint, config: AlbertConfig, dtype: str
) -> keras.Model:
    _check_head(job, source, _TASK)
    _choice_lengths(job)
    number = len(source.weights["output_bias"])
    if number > 1:
        raise ValueError(
            f"The head of {job.init_checkpoint!r} has {number} outputs, a "
            "multiple-choice model has 1. Pass --task=classifier, or another "
            "checkpoint."
        )
    return MultipleChoiceModel(config, dtype=dtype)


def _squad(
    job: ExportJob, source: Checkpoint, config: AlbertConfig, dtype: str
) -> keras.Model:
    _check_head(job, source, _SPAN, _BEAM)
    _window_lengths(job)
    if _SPAN in source.heads:
        return SpanModel(config, dtype=dtype)
    if job.tflite:
        raise ValueError(
            f"`tflite` is for version 1.1 of SQuAD; {job.init_checkpoint!r} "
            "is a model of version 2.0. Leave it out."
        )
    return BeamSpanModel(
        config,
        start_n_top=job.start_n_top,
        end_n_top=job.end_n_top,
        dtype=dtype,
    )


def _check_head(job: ExportJob, source: Checkpoint, *heads: str) -> None:
    if not source.heads & {*heads}:
        found = ", ".join(sorted(source.heads)) or "none"
        raise ValueError(
            f"{job.init_checkpoint!r} has no head for --task={job.task}. Its "
            f"heads: {found}; wanted: {' or '.join(heads)}. Fine-tune it for "
            "the task first, or pass --task=encoder."
        )


def _choice_lengths(job: ExportJob) -> ChoiceLengths:
    return ChoiceLengths(
        max_seq_length=job.known_seq_length, max_qa_length=job.max_qa_length
    )


def _window_lengths(job: ExportJob) -> WindowLengths:
    return WindowLengths(
        max_seq_length=job.known_seq_length,
        doc_stride=job.doc_stride,
        max_query_length=job.max_query_length,
    )


def _encoder_signatures(
    job: ExportJob, model: Any, weights: ServedWeights, text_graph: TextGraph
) -> list[Signature]:
    return encoder_signatures.make_signatures(
        model, weights, text_graph, max_seq_length=job.known_seq_length
    )


def _classifier_signatures(
    job: ExportJob, model: Any, weights: ServedWeights, text_graph: TextGraph
) -> list[Signature]:
    number = model.task_head.output_bias.shape[0]
    return classifier_signatures.make_signatures(
        model,
        weights,
        text_graph,
        labels=metadata.find_labels(job.init_checkpoint, number, job.labels),
        max_seq_length=job.known_seq_length,
    )


def _race_signatures(
    job: ExportJob, model: Any, weights: ServedWeights, text_graph: TextGraph
) -> list[Signature]:
    return race_signatures.make_signatures(
        model,
        weights,
        text_graph,
        lengths=_choice_lengths(job),
        num_choices=job.num_choices,
    )


def _squad_signatures(
    job: ExportJob, model: Any, weights: ServedWeights, text_graph: TextGraph
) -> list[Signature]:
    threshold: float | None = None
    if isinstance(model, SpanModel):
        scorer: Any = LogitScorer(model, weights)
    else:
        scorer = BeamScorer(model, weights, text_graph.special_ids.sep)
        threshold = _null_threshold(job)
    settings = SquadSettings(
        lengths=_window_lengths(job),
        limits=SpanLimits(
            n_best_size=job.n_best_size,
            max_answer_length=job.max_answer_length,
        ),
        null_threshold=threshold,
    )
    return squad_signatures.make_signatures(scorer, text_graph, settings)


def _null_threshold(job: ExportJob) -> float:
    if job.null_threshold is not None:
        return job.null_threshold
    found = metadata.read(job.init_checkpoint).null_threshold
    return _DEFAULT_THRESHOLD if found is None else found


_MODELS: dict[str, Callable[..., keras.Model]] = {
    "encoder": _encoder,
    "classifier": _classifier,
    "race": _race,
    "squad": _squad,
}
_SIGNATURES: dict[str, Callable[..., list[Signature]]] = {
    "encoder": _encoder_signatures,
    "classifier": _classifier_signatures,
    "race": _race_signatures,
    "squad": _squad_signatures,
}
