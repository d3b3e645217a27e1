"""The bare encoder: vectors of texts."""

from albert_tf.checkpoints import heads
from albert_tf.tasks.spec import TaskSpec


class EncoderSpec(TaskSpec):
    """What is done with the head `encoder`."""

    head = heads.ENCODER

    # Answers.

    # Served.
