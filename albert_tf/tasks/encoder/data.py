"""Vectors of texts: the data half, and the model half.

Data flow: one text or two -> records -> [model] -> vectors.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf import checks
from albert_tf.features import ArraySpec
from albert_tf.tasks import task
from albert_tf.tasks.task import Outputs, Record
from albert_tf.text import base
from albert_tf.text.base import Tokenizer

POOLINGS = ("mean", "cls")


class OneOrTwoTexts(NamedTuple):
    """One text, or two."""

    text_a: str
    text_b: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorData:
    """A `task.AnswerData`: one text or two, and the vector of them.

    Args:
        tokenizer: That of the model.
        max_seq_length: S, in tokens.
        pooling: `mean`, over the tokens of a text with `[CLS]` and `[SEP]`, or
            `cls`, the vector of `[CLS]`; both are of the last layer.
        normalizes: Whether vectors have the length 1.
    """

    tokenizer: Tokenizer
    max_seq_length: int
    pooling: str = "mean"
    normalizes: bool = False

    def __post_init__(self) -> None:
        checks.check_choice("pooling", self.pooling, POOLINGS)

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """Ids, mask and segments."""
        return task.encoder_specs(self.tokenizer.special_ids.pad)

    def records(
        self, examples: Sequence[OneOrTwoTexts], *, is_training: bool
    ) -> Iterator[Record]:
        """Yields one record for each example."""
        del is_training
        for example in examples:
            ids = [self.tokenizer.encode(text) for text in example]
            yield record_of(ids, self.tokenizer, self.max_seq_length)

    def answers(
        self, examples: Sequence[OneOrTwoTexts], outputs: Outputs
    ) -> Iterator[dict[str, Any]]:
        """Yields `vector`; see `load_predictor`."""
        del examples
        yield from ({"vector": vector} for vector in outputs["vector"])


def record_of(
    ids_of_texts: Sequence[list[int]], tokenizer: Tokenizer, max_seq_length: int
) -> Record:
    """Returns the record of two texts, of which the second may be empty."""
    ids, segments = base.encode_pair(
        *ids_of_texts,
        max_seq_length=max_seq_length,
        special=tokenizer.special_ids,
    )
    return {
        "input_ids": np.array(ids, np.int32),
        "input_mask": np.ones(len(ids), np.int32),
        "segment_ids": np.array(segments, np.int32),
    }
