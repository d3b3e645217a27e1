"""The head of classification and regression."""

from albert_tf.checkpoints import heads
from albert_tf.tasks.spec import TaskSpec


class ClassifierSpec(TaskSpec):
    """What is done with the head `classifier`."""

    head = heads.CLASSIFIER

    # Answers.

    # Served.
