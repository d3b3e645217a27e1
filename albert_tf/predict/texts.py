"""What a model answers that has no head of a task: words, order, vectors.

The data half and the model halves, beside those of the tasks.

Source: Lan et al. 2020, section 3.1, for the order of two segments.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from albert_tf import checks
from albert_tf.config import AlbertConfig
from albert_tf.features import ArraySpec
from albert_tf.metrics import classification
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.tasks import task
from albert_tf.tasks.task import Batch, Outputs, Record, Totals
from albert_tf.text import base
from albert_tf.text.base import Tokenizer

MASK = "[MASK]"
MAX_MASKS = 8
NUM_TOP = 5
POOLINGS = ("mean", "cls")


class Texts(NamedTuple):
    """One text, or two."""

    text_a: str
    text_b: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextData:
    """Turns one text or two into a record, and `[MASK]`s into their ids.

    `objectives` are those of the model, `mlm` and `sop`; none for vectors.
    """

    tokenizer: Tokenizer
    max_seq_length: int
    objectives: Sequence[str] = ()

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """Ids, mask and segments, and `masked_lm_positions`."""
        positions = ArraySpec(
            name="masked_lm_positions", dtype="int32", shape=(MAX_MASKS,)
        )
        return (
            *task.encoder_specs(self.tokenizer.special_ids.pad),
            positions,
        )

    def records(
        self, examples: Sequence[Texts], *, is_training: bool
    ) -> Iterator[Record]:
        """Yields one record for each example."""
        del is_training
        special = self.tokenizer.special_ids
        for example in examples:
            ids, segments = base.encode_pair(
                self._encode(example.text_a),
                self._encode(example.text_b),
                max_seq_length=self.max_seq_length,
                special=special,
            )
            input_ids = np.array(ids, np.int32)
            places = np.flatnonzero(input_ids == special.mask)[:MAX_MASKS]
            self._check_masks(example, len(places))
            yield {
                "input_ids": input_ids,
                "input_mask": np.ones(len(ids), np.int32),
                "segment_ids": np.array(segments, np.int32),
                "masked_lm_positions": np.pad(
                    places, (0, MAX_MASKS - len(places))
                ).astype(np.int32),
            }

    def _encode(self, text: str) -> list[int]:
        if "mlm" not in self.objectives:
            return self.tokenizer.encode(text)
        return self.tokenizer.encode_with_masks(text, MASK)

    def _check_masks(self, example: Texts, num_kept: int) -> None:
        num_masks = sum(text.count(MASK) for text in example)
        if "mlm" in self.objectives and num_masks != num_kept:
            raise ValueError(
                f"A text may have {MAX_MASKS} {MASK}, within the first "
                f"{self.max_seq_length} tokens. Received: {num_masks}, of "
                f"which {num_kept} are within them."
            )
        has_order = example.text_b and "sop" in self.objectives
        if self.objectives and not (num_masks or has_order):
            raise ValueError(
                f"Pass a text with {MASK}, or two texts, or head='encoder' for "
                f"vectors. Received: {example.text_a!r:.60}."
            )

    def answers(
        self, examples: Sequence[Texts], outputs: Outputs
    ) -> Iterator[dict[str, Any]]:
        """Yields `masks` and `in_order`, or `vector`; see `load_predictor`."""
        for place, example in enumerate(examples):
            if not self.objectives:
                yield {"vector": outputs["vector"][place]}
                continue
            answer: dict[str, Any] = {}
            num_masks = sum(text.count(MASK) for text in example)
            if num_masks:
                rows = zip(
                    outputs["top_ids"][place][:num_masks].tolist(),
                    outputs["top_probabilities"][place].tolist(),
                    strict=False,
                )
                answer["masks"] = [self._candidates(*row) for row in rows]
            if example.text_b and "sop" in self.objectives:
                logits = np.asarray(outputs["sentence_order_logits"][place])
                # Label 1 is that of swapped segments.
                answer["in_order"] = float(classification.softmax(logits)[0])
            yield answer

    def _candidates(
        self, ids: list[int], probabilities: list[float]
    ) -> list[dict[str, Any]]:
        return [
            {"token": self.tokenizer.id_to_token(i), "probability": p}
            for i, p in zip(ids, probabilities, strict=True)
            if i < self.tokenizer.vocab_size
        ]


class PretrainedTask:
    """The model half of `TextData` with objectives.

    Its outputs are `top_ids` int32 and `top_probabilities` `[B, 8, 5]`, and
    `sentence_order_logits` `[B, 2]`.
    """

    sequence_outputs: frozenset[str] = frozenset()

    def __init__(
        self,
        config: AlbertConfig,
        *,
        objectives: Sequence[str],
        dtype: Any = None,
    ) -> None:
        self.model: keras.Model = PretrainingModel(
            config, objectives=objectives, dtype=dtype
        )

    def final_outputs(self, batch: Batch) -> Totals:
        """Returns the outputs for a batch."""
        outputs = dict(self.model(batch, training=False))
        logits = outputs.pop("masked_lm_logits", None)
        if logits is not None:
            values, ids = tf.math.top_k(tf.nn.softmax(logits), NUM_TOP)
            outputs |= {"top_ids": ids, "top_probabilities": values}
        return outputs


class VectorTask:
    """The model half of `TextData` without objectives: a vector of each text.

    `pooling` is `mean`, over the tokens of a text with `[CLS]` and `[SEP]`, or
    `cls`, the vector of `[CLS]`; both are of the last layer. With `normalizes`,
    vectors have the length 1. The output is `vector`, float32 `[B, H]`.
    """

    sequence_outputs: frozenset[str] = frozenset()

    def __init__(
        self,
        config: AlbertConfig,
        *,
        pooling: str,
        normalizes: bool,
        dtype: Any = None,
    ) -> None:
        checks.check_choice("pooling", pooling, POOLINGS)
        self.model: keras.Model = AlbertModel(config, dtype=dtype)
        self._pooling = pooling
        self._normalizes = normalizes

    def final_outputs(self, batch: Batch) -> Totals:
        """Returns the outputs for a batch."""
        sequence = self.model(batch, training=False)["sequence_output"]
        sequence = tf.cast(sequence, tf.float32)
        vector = sequence[:, 0]
        if self._pooling == "mean":
            mask = tf.cast(batch["input_mask"], tf.float32)[:, :, None]
            total = tf.reduce_sum(sequence * mask, 1)
            vector = total / tf.reduce_sum(mask, 1)
        if self._normalizes:
            vector = tf.math.l2_normalize(vector, axis=-1)
        return {"vector": vector}
