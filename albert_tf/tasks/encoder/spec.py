"""The bare encoder: vectors of texts."""

import dataclasses
import logging
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from albert_tf.checkpoints import heads
from albert_tf.checkpoints.checkpoint import Checkpoint
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

    def trained_settings(self, source: Checkpoint) -> Mapping[str, Any]:
        """Takes settings of vectors, but no settings of another task."""
        return source.settings if "pooling" in source.settings else {}

    def example(self, position: int, item: Any) -> inputs.OneOrTwoTexts:
        """Takes one text, or two."""
        return inputs.one_or_two_texts(position, item)

    def answer_data(
        self, source: Checkpoint, model: Any, settings: Mapping[str, Any]
    ) -> AnswerData:
        """Reads `pooling` and `normalizes` of the settings."""
        from albert_tf.tasks.encoder.data import VectorData

        if "pooling" not in source.settings:
            _LOGGER.warning(
                "%s was not trained for vectors: those of different texts are "
                "nearly alike. Pass it to run_similarity.py, which trains them "
                "on pairs of texts, as --init_checkpoint.",
                source.path,
            )
        return VectorData(
            tokenizer=source.tokenizer,
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

    @property
    def similarity(self) -> ModuleType:
        """The cosines of vectors."""
        from albert_tf.metrics import similarity

        return similarity
