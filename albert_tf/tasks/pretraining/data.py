"""Masked words and the order of two texts: the data half and the model half.

Data flow: one text or two, with `[MASK]`s -> records -> [model] -> answers.
Source: Lan et al. 2020, section 3.1, for the order of two segments.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from keras import ops

from albert_tf.features import ArraySpec
from albert_tf.metrics import classification
from albert_tf.tasks import encoder_records
from albert_tf.tasks.inputs import OneOrTwoTexts
from albert_tf.tasks.task import AnswerTask, Batch, Totals
from albert_tf.tasks.task_data import AnswerData, Outputs, Record, TextAnswer
from albert_tf.text.base import Tokenizer

MASK = "[MASK]"
MAX_MASKS = 8
# The likeliest tokens of each mask that are given.
NUM_TOP = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedTextData(AnswerData):
    """The data half of masked texts: the likeliest tokens of `[MASK]`s.

    `objectives` are what the model has learnt, `mlm` and `sop`.
    """

    tokenizer: Tokenizer
    max_seq_length: int
    objectives: Sequence[str]

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """Ids, mask and segments, and `masked_lm_positions`."""
        positions = ArraySpec(
            name="masked_lm_positions", dtype="int32", shape=(MAX_MASKS,)
        )
        return encoder_records.array_specs(self.tokenizer, positions)

    def records(
        self, examples: Sequence[OneOrTwoTexts], *, is_training: bool
    ) -> Iterator[Record]:
        """Yields one record for each example."""
        for example in examples:
            ids_a, ids_b = map(self._encode, example)
            record = encoder_records.of_pair(self, ids_a, ids_b)
            is_mask = record["input_ids"] == self.tokenizer.special_ids.mask
            positions = np.flatnonzero(is_mask)[:MAX_MASKS]
            self._check_masks(example, len(positions))
            yield record | {
                "masked_lm_positions": np.pad(
                    positions, (0, MAX_MASKS - len(positions))
                ).astype(np.int32)
            }

    def _encode(self, text: str) -> list[int]:
        if "mlm" not in self.objectives:
            return self.tokenizer.encode(text)
        return self.tokenizer.encode_with_masks(text, MASK)

    def _check_masks(self, example: OneOrTwoTexts, num_within: int) -> None:
        num_masks = _num_masks(example)
        if "mlm" in self.objectives and num_masks != num_within:
            raise ValueError(
                f"A text may have {MAX_MASKS} {MASK}, within the first "
                f"{self.max_seq_length} tokens. Received: {num_masks}, of "
                f"which {num_within} are within them."
            )
        if not (num_masks or self._has_order(example)):
            raise ValueError(
                f"Pass a text with {MASK}, or two texts, or head='encoder' for "
                f"vectors. Received: {example.text_a!r:.60}."
            )

    def _has_order(self, example: OneOrTwoTexts) -> bool:
        return bool(example.text_b) and "sop" in self.objectives

    def answers(
        self, examples: Sequence[OneOrTwoTexts], outputs: Outputs
    ) -> Iterator[TextAnswer]:
        """Yields `masks` and `in_order`; see `load_predictor`."""
        for row, example in enumerate(examples):
            answer: TextAnswer = {}
            if num_masks := _num_masks(example):
                rows = zip(
                    outputs["top_ids"][row][:num_masks].tolist(),
                    outputs["top_probabilities"][row].tolist(),
                    strict=False,
                )
                answer["masks"] = [self._candidates(*row) for row in rows]
            if self._has_order(example):
                logits = np.asarray(outputs["sentence_order_logits"][row])
                # Label 1 stands for swapped segments.
                answer["in_order"] = float(classification.softmax(logits)[0])
            yield answer

    def _candidates(
        self, ids: list[int], probabilities: list[float]
    ) -> list[TextAnswer]:
        return [
            {"token": self.tokenizer.id_to_token(i), "probability": p}
            for i, p in zip(ids, probabilities, strict=True)
        ]


def _num_masks(example: OneOrTwoTexts) -> int:
    return sum(text.count(MASK) for text in example)


class LikeliestTokens(AnswerTask):
    """Computes `top_ids` int32 and `top_probabilities`, both `[B, 8, 5]`.

    And `sentence_order_logits` `[B, 2]`; what the model has objectives for.
    """

    def __init__(self, model: Any, num_tokens: int) -> None:
        super().__init__(model)
        self._num_tokens = num_tokens

    def final_outputs(self, batch: Batch) -> Totals:
        """Returns the outputs for a batch."""
        outputs = super().final_outputs(batch)
        logits = outputs.pop("masked_lm_logits", None)
        if logits is not None:
            # There may be more outputs than the vocabulary has tokens.
            probabilities = ops.softmax(logits[..., : self._num_tokens])
            values, ids = ops.top_k(probabilities, NUM_TOP)
            outputs |= {"top_ids": ids, "top_probabilities": values}
        return outputs
