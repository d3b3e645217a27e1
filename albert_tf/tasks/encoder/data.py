"""Vectors of texts: the data half, and the model half.

Data flow: one text or two -> records -> [model] -> vectors.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from albert_tf import checks
from albert_tf.features import ArraySpec
from albert_tf.tasks import task
from albert_tf.tasks.inputs import OneOrTwoTexts
from albert_tf.tasks.task import AnswerTask, Batch, Outputs, Record, Totals
from albert_tf.text.base import Tokenizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorData:
    """A `task.AnswerData`: one text or two, and the vector of them.

    It is that of `[CLS]` in the last layer, or the mean over all tokens.
    """

    tokenizer: Tokenizer
    max_seq_length: int
    pooling: str = "mean"
    normalizes: bool = False

    def __post_init__(self) -> None:
        checks.check_choice("pooling", self.pooling, ("mean", "cls"))

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """Ids, mask and segments."""
        return task.encoder_specs(self.tokenizer.special_ids.pad)

    def records(
        self, examples: Sequence[OneOrTwoTexts], *, is_training: bool
    ) -> Iterator[Record]:
        """Yields one record for each example."""
        for example in examples:
            ids_a, ids_b = map(self.tokenizer.encode, example)
            yield task.pair_record(
                ids_a, ids_b, self.tokenizer, self.max_seq_length
            )

    def answers(
        self, examples: Sequence[OneOrTwoTexts], outputs: Outputs
    ) -> Iterator[dict[str, Any]]:
        """Yields `vector`; see `load_predictor`."""
        yield from ({"vector": vector} for vector in outputs["vector"])


class VectorOutputs(AnswerTask):
    """Computes `vector`, float32 `[B, H]`, as `data` says; see `VectorData`."""

    def __init__(self, data: VectorData, model: Any) -> None:
        super().__init__(model)
        self._data = data

    def final_outputs(self, batch: Batch) -> Totals:
        """Returns the vectors of a batch."""
        sequence = super().final_outputs(batch)["sequence_output"]
        sequence = tf.cast(sequence, tf.float32)
        vector = sequence[:, 0]
        if self._data.pooling == "mean":
            mask = tf.cast(batch["input_mask"], tf.float32)[:, :, None]
            total = tf.reduce_sum(sequence * mask, 1)
            vector = total / tf.reduce_sum(mask, 1)
        if self._data.normalizes:
            vector = tf.math.l2_normalize(vector, axis=-1)
        return {"vector": vector}
