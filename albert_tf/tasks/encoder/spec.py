"""The bare encoder: vectors of texts."""

from typing import TYPE_CHECKING

from albert_tf.checkpoints import heads
from albert_tf.tasks.spec import Exported, TaskSpec

if TYPE_CHECKING:
    from albert_tf.serving.signature import Signature


class EncoderSpec(TaskSpec):
    """What is done with the head `encoder`."""

    head = heads.ENCODER

    is_finetuned = False

    # Answers.

    # Served.

    # Sequences of different lengths.
    joins_outputs = False
    main_output = "sequence_output"
    export_task = "encoder"

    def make_signatures(self, exported: Exported) -> "list[Signature]":
        """Traces those of the vectors."""
        from albert_tf.serving import vectors
        from albert_tf.serving.exported_encoder import ExportedEncoder

        encode = ExportedEncoder(exported.model, exported.weights)
        return vectors.make_signatures(
            encode,
            exported.tokenizer,
            max_seq_length=exported.settings.max_seq_length,
        )
