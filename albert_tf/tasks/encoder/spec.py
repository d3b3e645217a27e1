"""The bare encoder: vectors of texts."""

from collections.abc import Mapping
from typing import Any

from albert_tf.checkpoints import heads
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.tasks import inputs
from albert_tf.tasks.spec import Exported, HeadSpec, Signatures
from albert_tf.tasks.task import AnswerData, AnswerTask


class EncoderSpec(HeadSpec):
    """What is done with the head `encoder`."""

    head = heads.ENCODER

    def trained_settings(self, source: Checkpoint) -> Mapping[str, Any]:
        """Takes those of vectors, not those of a fine-tuning."""
        return source.settings if "pooling" in source.settings else {}

    def example(self, position: int, item: Any) -> inputs.OneOrTwoTexts:
        """Takes one text, or two."""
        return inputs.one_or_two_texts(position, item)

    def answer_data(
        self, source: Checkpoint, model: Any, settings: Mapping[str, Any]
    ) -> AnswerData:
        """Reads `pooling` and `normalizes` of the settings."""
        from albert_tf.tasks.encoder.data import VectorData

        return VectorData(
            tokenizer=source.tokenizer,
            max_seq_length=settings["max_seq_length"],
            pooling=settings.get("pooling", "mean"),
            normalizes=settings.get("normalizes", False),
        )

    def answer_task(self, data: Any, model: Any) -> AnswerTask:
        """Computes vectors."""
        from albert_tf.tasks.encoder.data import VectorOutputs

        return VectorOutputs(data, model)

    # Sequences of different lengths.
    joins_outputs = False

    def make_signatures(self, exported: Exported) -> Signatures:
        """Traces those of the vectors."""
        from albert_tf.serving import exported_encoder

        return exported_encoder.make_signatures(
            exported_encoder.ExportedEncoder(exported.model, exported.weights),
            exported.tokenizer,
            max_seq_length=exported.settings.max_seq_length,
        )
