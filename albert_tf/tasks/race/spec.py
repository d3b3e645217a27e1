"""The head of multiple choice."""

import dataclasses
from typing import Any

from albert_tf.checkpoints import heads
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.settings import SettingValues, setting
from albert_tf.tasks import inputs
from albert_tf.tasks.head_flags import EarlyExitSettings
from albert_tf.tasks.race import examples as examples_lib
from albert_tf.tasks.race.examples import ChoiceLengths, MultipleChoiceExample
from albert_tf.tasks.spec import HeadSpec
from albert_tf.tasks.task_data import AnswerData, Examples, ExampleSet


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChoiceSettings(EarlyExitSettings):
    """The settings of an exported model of multiple choice."""

    as_trained = ("max_qa_length", "num_choices")
    parts = ("max_qa_length",)

    max_qa_length: int | None = setting(
        None,
        "race: largest number of tokens of question and option. Default: as "
        "in the fine-tuning, or 128.",
    )
    num_choices: int | None = setting(
        None,
        "race: number of options of a question. Default: as in the "
        "fine-tuning, or 4.",
        at_least=examples_lib.MIN_OPTIONS,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.choice_lengths()

    def choice_lengths(self) -> ChoiceLengths:
        """Returns the lengths of a choice."""
        return ChoiceLengths.within(vars(self))


class MultipleChoiceSpec(HeadSpec):
    """Answers questions with the head `multiple_choice`."""

    head = heads.MULTIPLE_CHOICE
    has_mean = True

    def example(self, position: int, item: object) -> MultipleChoiceExample:
        """Takes `article`, `question` and `options`."""
        article, question, options = inputs.values_by_name(
            position, item, "article", "question", "options"
        ).values()
        options = examples_lib.check_options(options, f"Input {position}")
        return MultipleChoiceExample(
            guid=str(position),
            article=inputs.text(position, article),
            question=inputs.text(position, question),
            options=tuple(inputs.text(position, each) for each in options),
        )

    def answer_data(
        self, checkpoint: Checkpoint, model: Any, settings: SettingValues
    ) -> AnswerData:
        """Reads the lengths of the settings."""
        from albert_tf.tasks.race.data import MultipleChoiceData

        return MultipleChoiceData(
            tokenizer=checkpoint.tokenizer,
            lengths=ChoiceLengths.within(settings),
        )

    def example_set(self, data: Any, examples: Examples) -> ExampleSet:
        """Checks that all questions have the same number of options."""
        num_choices = examples_lib.num_options(examples, "The input")
        data = dataclasses.replace(data, num_choices=num_choices)
        return super().example_set(data, examples)

    serving_settings = ChoiceSettings
    # An article and several options.
    served_batch_size = 8
    runtimes = ()
