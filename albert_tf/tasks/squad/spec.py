"""The heads that find the span of an answer: SQuAD 1.1 and 2.0."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from albert_tf.checkpoints import heads
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.tasks import inputs
from albert_tf.tasks.spec import TaskSpec
from albert_tf.tasks.task import AnswerTask, ExampleSet

if TYPE_CHECKING:
    from albert_tf.tasks.squad.data import SquadData
    from albert_tf.tasks.squad.examples import SquadExample


class SpanSpec(TaskSpec):
    """What is done with the head `span`."""

    head = heads.SPAN

    max_seq_length = 384

    # Whether a question may have no answer.
    has_null_answers: ClassVar[bool] = False

    # Answers.

    sequence_outputs = frozenset(("start_logits", "end_logits"))

    def example(self, position: int, item: Any) -> "SquadExample":
        """Takes `question` and `context`."""
        from albert_tf.tasks.squad.examples import SquadExample

        texts = inputs.texts_by_name(position, item, "question", "context")
        return SquadExample(guid=str(position), **texts)

    def answer_data(
        self, source: Checkpoint, model: Any, settings: Mapping[str, Any]
    ) -> "SquadData":
        """Reads the lengths and limits of the settings."""
        from albert_tf.tasks.squad.data import SquadData
        from albert_tf.tasks.squad.predictions import SpanLimits
        from albert_tf.tasks.squad.windows import WindowLengths

        if source.metadata.null_from_cls:
            raise ValueError(
                "The logits of [CLS] are those of there being no answer, which "
                "only exports compute. Pass the checkpoint to "
                "export_saved_model.py."
            )
        limits = {
            field.name: settings[field.name]
            for field in dataclasses.fields(SpanLimits)
            if field.name in settings
        }
        return SquadData(
            tokenizer=source.load_tokenizer(),
            lengths=WindowLengths.within(settings),
            limits=SpanLimits(**limits),
            version_2_with_negative=self.has_null_answers,
            saved_threshold=source.metadata.null_threshold,
        )

    def example_set(
        self, data: "SquadData", examples: Sequence[Any]
    ) -> ExampleSet:
        """Cuts the contexts into windows."""
        return super().example_set(data, data.questions(examples))

    # Served.


class BeamSpanSpec(SpanSpec):
    """What is done with the head `beam_span`."""

    head = heads.BEAM_SPAN
    has_null_answers = True

    # Answers.

    sequence_outputs = frozenset()

    def answer_task(self, data: "SquadData", model: Any) -> AnswerTask:
        """Pads sequences that are shorter than a beam."""
        from albert_tf.tasks.squad.outputs import BeamSpanOutputs

        return BeamSpanOutputs(model)
