"""Special tokens: their ids, and the sequences of texts that they frame.

Data flow: texts -> ids (tokenizer) -> [this file] -> `input_ids`,
`segment_ids`.

Source: google-research/albert, `classifier_utils.convert_single_example` and
`_truncate_seq_pair`.
"""

import dataclasses
from collections.abc import Sequence

SENTENCEPIECE_NAMES = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
WORDPIECE_NAMES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

_NUM_SPECIAL_ALONE = 2  # [CLS] a [SEP]
_NUM_SPECIAL_PAIR = 3  # [CLS] a [SEP] b [SEP]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpecialIds:
    """Ids of the special tokens.

    `pad` and `unk` are `<pad>` and `<unk>` in SentencePiece, `[PAD]` and
    `[UNK]` in WordPiece.
    """

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int


def encode_pair(
    ids_a: Sequence[int],
    ids_b: Sequence[int],
    *,
    max_seq_length: int,
    special: SpecialIds,
) -> tuple[list[int], list[int]]:
    """Returns `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, without padding.

    Texts that are too long lose tokens at their ends: always the longer text,
    and the second if both are equally long. If `ids_b` is empty, there is no
    second `[SEP]` either. Returns the ids and their segments:

    >>> special = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4)
    >>> encode_pair([7, 8, 9], [5], max_seq_length=6, special=special)
    ([2, 7, 8, 3, 5, 3], [0, 0, 0, 0, 1, 1])
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
