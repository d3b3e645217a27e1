"""The heads of pretraining: masked words, and the order of two segments."""

from typing import TYPE_CHECKING

from albert_tf.checkpoints import heads
from albert_tf.tasks.spec import Exported, TaskSpec

if TYPE_CHECKING:
    from albert_tf.serving.signature import Signature


class PretrainingSpec(TaskSpec):
    """What is done with the head `pretraining`."""

    head = heads.PRETRAINING

    is_finetuned = False

    # Answers.

    # Served.

    # Sequences of different lengths.
    joins_outputs = False
    # The masked positions are not among the ids.
    litert_head = heads.ENCODER.name
    export_task = "encoder"

    def make_signatures(self, exported: Exported) -> "list[Signature]":
        """Traces those of the encoder, and of the heads that there are."""
        from albert_tf.tasks.pretraining import signatures

        return signatures.make_signatures(exported)
