"""The heads of pretraining: masked words, and the order of two segments."""

from albert_tf.checkpoints import heads
from albert_tf.tasks.spec import TaskSpec


class PretrainingSpec(TaskSpec):
    """What is done with the head `pretraining`."""

    head = heads.PRETRAINING

    # Answers.

    # Served.
