"""Joins one or two texts to a sequence, and sequences to a padded batch.

Data flow: texts -> ids (tokenizer) -> [this file] -> `input_ids`,
`segment_ids`, `input_mask`.
Floor: text. Plain Python and NumPy.

Source: google-research/albert, `classifier_utils.convert_single_example` and
`_truncate_seq_pair`.
"""

import abc
from collections.abc import Sequence

import numpy as np

from albert_tf.text.special_tokens import SpecialIds

_NUM_SPECIAL_ALONE = 2  # [CLS] a [SEP]
_NUM_SPECIAL_PAIR = 3  # [CLS] a [SEP] b [SEP]


class PaddedBatches(abc.ABC):
    """Adds `batch` to a tokenizer."""

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
            ids, segments = encode_pair(
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


def encode_pair(
    ids_a: Sequence[int],
    ids_b: Sequence[int] | None = None,
    *,
    max_seq_length: int,
    special: SpecialIds,
) -> tuple[list[int], list[int]]:
    """Returns `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, without padding.

    Texts that are too long lose tokens at their ends: always the longer text,
    and the second if both are equally long.

    >>> special = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4)
    >>> encode_pair([7, 8, 9], [5], max_seq_length=6, special=special)
    ([2, 7, 8, 3, 5, 3], [0, 0, 0, 0, 1, 1])

    Args:
        ids_a: Ids of the first text; may be empty.
        ids_b: Ids of the second text. If it is None or empty, there is no
            second `[SEP]` either.
        max_seq_length: Largest length of the result.
        special: Ids of the special tokens.

    Returns:
        The ids; and for each id its segment, 0 up to the first `[SEP]` and 1
        after it.

    Raises:
        ValueError: `max_seq_length` has no room for a token of each text.
    """
    num_special = _NUM_SPECIAL_PAIR if ids_b else _NUM_SPECIAL_ALONE
    num_texts = num_special - 1
    if max_seq_length < num_special + num_texts:
        raise ValueError(
            "`max_seq_length` must leave room for a token of each text beside "
            f"the {num_special} special tokens. Received: "
            f"max_seq_length={max_seq_length}."
        )
    if not ids_b:
        kept = ids_a[: max_seq_length - num_special]
        return [special.cls, *kept, special.sep], [0] * (len(kept) + 2)
    length_a, length_b = truncated_lengths(
        len(ids_a), len(ids_b), max_seq_length - num_special
    )
    input_ids = [special.cls, *ids_a[:length_a], special.sep]
    segment_ids = [0] * len(input_ids) + [1] * (length_b + 1)
    return [*input_ids, *ids_b[:length_b], special.sep], segment_ids


def truncated_lengths(
    length_a: int, length_b: int, max_length: int
) -> tuple[int, int]:
    """Returns how many tokens of two texts remain if they share `max_length`.

    The result is the same as removing tokens one by one from the longer text,
    and from the second if both are equally long, until both together fit.

    >>> truncated_lengths(9, 5, 7)
    (4, 3)
    """
    if length_a + length_b <= max_length:
        return length_a, length_b
    half = max_length // 2
    if length_b <= half:
        return max_length - length_b, length_b
    if length_a <= max_length - half:
        return length_a, max_length - length_a
    return max_length - half, half
