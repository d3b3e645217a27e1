"""The heads that find the span of an answer: SQuAD 1.1 and 2.0."""

import dataclasses
from typing import Any

from albert_tf import settings as settings_lib
from albert_tf.checkpoints import heads
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.settings import SettingValues, setting
from albert_tf.tasks import inputs
from albert_tf.tasks.spec import HeadSpec, ServingSettings
from albert_tf.tasks.squad.data import SquadData
from albert_tf.tasks.squad.examples import SquadExample
from albert_tf.tasks.squad.predictions import SpanLimits
from albert_tf.tasks.squad.windows import WindowLengths
from albert_tf.tasks.task import AnswerTask
from albert_tf.tasks.task_data import Examples, ExampleSet


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanSettings(ServingSettings):
    """The settings of an exported model of either version."""

    as_trained = (*vars(WindowLengths()), *vars(SpanLimits()))
    parts = ("max_query_length",)
    not_in_runtimes = ("null_from_cls",)

    doc_stride: int | None = setting(
        None,
        "squad: tokens from the start of a window to the next. Default: as in "
        "the fine-tuning, or 128.",
    )
    max_query_length: int | None = setting(
        None,
        "squad: largest number of tokens of a question. Default: as in the "
        "fine-tuning, or 64.",
    )
    n_best_size: int | None = setting(
        None,
        "squad: number of starts, and of ends, combined in a window. Default: "
        "as trained, or 20.",
    )
    max_answer_length: int | None = setting(
        None, "squad: most tokens of an answer. Default: as trained, or 30."
    )
    start_n_top: int | None = setting(
        None, "squad 2.0: beam size for starts. Default: as trained, or 5."
    )
    end_n_top: int | None = setting(
        None,
        "squad 2.0: beam size for ends, per start. Default: as trained, or 5.",
    )
    null_score_diff_threshold: float | None = setting(
        None,
        "squad version 2.0, and 1.1 with null_from_cls: predict no answer "
        "when the null score is at or above this value. Default: the value "
        "tuned by the run of the checkpoint, or 0.",
    )
    null_from_cls: bool = setting(
        False,
        "squad version 1.1: the head was trained by transformers on SQuAD 2.0, "
        "so that the logits of [CLS] are those of there being no answer.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.window_lengths()
        self.span_limits()

    def window_lengths(self) -> WindowLengths:
        """Returns the lengths of a window."""
        return WindowLengths.within(vars(self))

    def span_limits(self) -> SpanLimits:
        """Returns which spans may answer a question."""
        return settings_lib.read(SpanLimits, vars(self))

    def answer_settings(self) -> SettingValues:
        """Returns the lengths and the limits."""
        return vars(self.window_lengths()) | vars(self.span_limits())

    def applied_to(self, metadata: Metadata) -> Metadata:
        """Replaces the null threshold."""
        threshold = self.null_score_diff_threshold
        if threshold is None:
            return metadata
        return dataclasses.replace(metadata, null_threshold=threshold)


class SpanSpec(HeadSpec):
    """Answers questions with the head `span`."""

    head = heads.SPAN
    has_mean = True

    max_seq_length = 384

    sequence_outputs = frozenset(("start_logits", "end_logits"))

    def example(self, position: int, item: object) -> SquadExample:
        """Takes `question` and `context`."""
        texts = inputs.texts_by_name(position, item, "question", "context")
        question, context = texts.values()
        return SquadExample(
            guid=str(position), question=question, context=context
        )

    def answer_data(
        self, checkpoint: Checkpoint, model: Any, settings: SettingValues
    ) -> SquadData:
        """Reads the lengths and limits of the settings."""
        if checkpoint.metadata.null_from_cls:
            raise ValueError(
                "The logits of [CLS] are those of there being no answer, which "
                "only exports compute. Pass the checkpoint to "
                "export_saved_model.py."
            )
        return SquadData(
            tokenizer=checkpoint.tokenizer,
            lengths=WindowLengths.within(settings),
            limits=settings_lib.read(SpanLimits, settings),
            version_2_with_negative=self.head is heads.BEAM_SPAN,
            null_score_diff_threshold=checkpoint.metadata.null_threshold,
        )

    def example_set(self, data: Any, examples: Examples) -> ExampleSet:
        """Cuts the contexts into windows."""
        return super().example_set(data, data.questions(examples))

    serving_settings = SpanSettings
    # A context may have any length.
    served_batch_size = 8


class BeamSpanSpec(SpanSpec):
    """Answers questions, or not, with the head `beam_span`."""

    head = heads.BEAM_SPAN
    # The ends that are found depend on the starts of the same model.
    has_mean = False
    # transformers.js has no beams.
    runtimes = ("litert",)

    sequence_outputs = frozenset()

    def answer_task(self, data: SquadData, model: Any) -> AnswerTask:
        """Pads sequences that are shorter than a beam."""
        from albert_tf.tasks.squad.model import BeamSpanOutputs

        return BeamSpanOutputs(model)

    def model_arguments(self, settings: SettingValues) -> SettingValues:
        """Returns the sizes of the beams."""
        names = ("start_n_top", "end_n_top")
        return {name: settings[name] for name in names if settings.get(name)}
