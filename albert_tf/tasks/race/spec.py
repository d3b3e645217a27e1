"""The head of multiple choice."""

import dataclasses
from typing import TYPE_CHECKING

from albert_tf import checks
from albert_tf.checkpoints import heads
from albert_tf.settings import setting
from albert_tf.tasks.race.examples import MIN_OPTIONS, ChoiceLengths
from albert_tf.tasks.serving_settings import EarlyExitSettings
from albert_tf.tasks.spec import Exported, TaskSpec

if TYPE_CHECKING:
    from albert_tf.serving.signature import Signature

_NUM_CHOICES = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChoiceSettings(EarlyExitSettings):
    """The settings of an exported model of multiple choice."""

    as_trained = ("max_qa_length", "num_choices")

    max_qa_length: int | None = setting(
        None,
        "race: largest number of tokens of question and option. Default: as "
        "in the fine-tuning, or 128.",
    )
    num_choices: int | None = setting(
        None,
        "race: number of options of a question. Default: as in the "
        "fine-tuning, or 4.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.check_integer(
            "num_choices", self.num_options, at_least=MIN_OPTIONS
        )
        self.choice_lengths()

    @property
    def num_options(self) -> int:
        """`num_choices`, or its default."""
        return _NUM_CHOICES if self.num_choices is None else self.num_choices

    def choice_lengths(self) -> ChoiceLengths:
        """Returns the lengths of a choice."""
        return ChoiceLengths.within(vars(self))


class MultipleChoiceSpec(TaskSpec):
    """What is done with the head `multiple_choice`."""

    head = heads.MULTIPLE_CHOICE

    # Answers.

    # Served.

    serving_settings = ChoiceSettings
    # An article and several options.
    served_batch_size = 8
    has_litert = False
    export_task = "race"

    def make_signatures(self, exported: Exported) -> "list[Signature]":
        """Traces those of the choice among options."""
        from albert_tf.tasks.race import signatures

        return signatures.make_signatures(exported)
