"""Texts, or pairs of texts, as the padded batch that a model is called on.

Data flow: texts -> tokenizer -> [this file] -> `input_ids`, `input_mask`,
`segment_ids`.

Floor: text. Plain Python and NumPy.
"""

import abc
from collections.abc import Sequence

import numpy as np

from albert_tf.text import sequence_pairs
from albert_tf.text.special_tokens import SpecialIds


class PaddedBatches(abc.ABC):
    """Adds `batch` to a tokenizer.

    Attributes:
        special_ids: Ids of padding, unknown, `[CLS]`, `[SEP]`, `[MASK]`.
    """

    special_ids: SpecialIds

    @abc.abstractmethod
    def encode(self, text: str) -> list[int]:
        """See `Tokenizer.encode`."""

    def batch(
        self,
        texts: Sequence[str],
        text_pairs: Sequence[str] | None = None,
        *,
        max_seq_length: int,
    ) -> dict[str, np.ndarray]:
        """See `Tokenizer.batch`."""
        _check_texts("texts", texts)
        if text_pairs is None:
            text_pairs = [""] * len(texts)
        _check_texts("text_pairs", text_pairs)
        if len(text_pairs) != len(texts):
            raise ValueError(
                "`text_pairs` must have as many texts as `texts`. Received: "
                f"{len(text_pairs)} for {len(texts)}."
            )
        shape = len(texts), max_seq_length
        input_ids = np.full(shape, self.special_ids.pad, np.int32)
        input_mask, segment_ids = np.zeros((2, *shape), np.int32)
        pairs = zip(texts, text_pairs, strict=True)
        for row, (text, text_pair) in enumerate(pairs):
            ids, segments = sequence_pairs.encode_pair(
                self.encode(text),
                self.encode(text_pair),
                max_seq_length=max_seq_length,
                special=self.special_ids,
            )
            input_ids[row, : len(ids)] = ids
            input_mask[row, : len(ids)] = 1
            segment_ids[row, : len(ids)] = segments
        return {
            "input_ids": input_ids,
            "input_mask": input_mask,
            "segment_ids": segment_ids,
        }


def _check_texts(name: str, texts: Sequence[str]) -> None:
    if isinstance(texts, str | bytes):
        raise ValueError(
            f"`{name}` must be a sequence of texts. Received: one text. Pass "
            "[text] for a batch of one."
        )
