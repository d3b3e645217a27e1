"""The heads that find the span of an answer: SQuAD 1.1 and 2.0."""

from albert_tf.checkpoints import heads
from albert_tf.tasks.spec import TaskSpec


class SpanSpec(TaskSpec):
    """What is done with the head `span`."""

    head = heads.SPAN

    max_seq_length = 384

    # Answers.

    # Served.


class BeamSpanSpec(SpanSpec):
    """What is done with the head `beam_span`."""

    head = heads.BEAM_SPAN
