"""The head of multiple choice."""

from albert_tf.checkpoints import heads
from albert_tf.tasks.spec import TaskSpec


class MultipleChoiceSpec(TaskSpec):
    """What is done with the head `multiple_choice`."""

    head = heads.MULTIPLE_CHOICE

    # Answers.

    # Served.
