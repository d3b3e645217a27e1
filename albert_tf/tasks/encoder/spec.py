"""The bare encoder: vectors of texts."""

import dataclasses
import logging
from typing import Any

from albert_tf.checkpoints import heads
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.settings import SettingValues
from albert_tf.tasks import inputs
from albert_tf.tasks.spec import HeadSpec, ServingSettings
from albert_tf.tasks.task import AnswerTask
from albert_tf.tasks.task_data import AnswerData

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderSettings(ServingSettings):
    """The settings of an exported encoder; see `VectorData`."""

    as_trained = ("pooling", "normalizes")

    pooling: str = "mean"
    normalizes: bool = False


class EncoderSpec(HeadSpec):
    """Answers texts with vectors, by the head `encoder`."""

    head = heads.ENCODER
    gives_vectors = True

    def trained_settings(self, checkpoint: Checkpoint) -> SettingValues:
        """Takes settings of vectors, but no settings of another task."""
        return checkpoint.settings if "pooling" in checkpoint.settings else {}

    def example(self, position: int, item: object) -> inputs.OneOrTwoTexts:
        """Takes one text, or two."""
        return inputs.one_or_two_texts(position, item)

    def answer_data(
        self, checkpoint: Checkpoint, model: Any, settings: SettingValues
    ) -> AnswerData:
        """Reads `pooling` and `normalizes` of the settings."""
        from albert_tf.tasks.encoder.data import VectorData

        if "pooling" not in checkpoint.settings:
            _LOGGER.warning(
                "%s was not trained for vectors: those of different texts are "
                "nearly alike. Pass it to run_similarity.py, which trains them "
                "on pairs of texts, as --init_checkpoint.",
                checkpoint.path,
            )
        return VectorData(
            tokenizer=checkpoint.tokenizer,
            max_seq_length=settings["max_seq_length"],
            pooling=settings.get("pooling", "mean"),
            normalizes=settings.get("normalizes", False),
        )

    def answer_task(self, data: Any, model: Any) -> AnswerTask:
        """Computes vectors."""
        from albert_tf.tasks.encoder.model import VectorOutputs

        return VectorOutputs(data, model)

    serving_settings = EncoderSettings
    # Sequences of different lengths.
    joins_outputs = False
