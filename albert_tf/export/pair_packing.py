"""Tokens of texts and pairs to the inputs of a model, in a graph.

Data flow: `Tokens` -> [this file] -> input_ids, input_mask, segment_ids.
Floor: export. Core TensorFlow operations only.

Source: google-research/albert, classifier_utils._truncate_seq_pair and
convert_single_example.
"""

import dataclasses

import tensorflow as tf

from albert_tf.export import flat_rows
from albert_tf.export.tokens import Tokens
from albert_tf.text.special_tokens import SpecialIds

# `[CLS]` and `[SEP]`, and the second `[SEP]` of a pair.
_NUM_SPECIAL, _NUM_SPECIAL_OF_PAIR = 2, 3
# Room for the special tokens of a pair, and a token of each text.
MIN_SEQ_LENGTH = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranges:
    """Neighbouring tokens for each of R rows.

    Args:
        starts: Int32 `[R]`, the first one, among the tokens of all texts.
        sizes: Int32 `[R]`, how many they are.
    """

    starts: tf.Tensor
    sizes: tf.Tensor


def pack_pairs(
    tokens: Tokens, *, max_seq_length: int, special: SpecialIds
) -> dict[str, tf.Tensor]:
    """Makes `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]`, of each pair.

    What is too long loses tokens at its end, one at a time: of the longer
    text, of the second if both are as long.

    Args:
        tokens: Of 2 B texts, the first B of which are the first of each pair.
            A second text without tokens makes no pair.
        max_seq_length: Longest sequence; at least `MIN_SEQ_LENGTH`.
        special: Ids of the special tokens.

    Returns:
        Int32 `[B, S]`, padded to the longest sequence: `input_ids`,
        `input_mask` and `segment_ids`.
    """
    num_pairs = tokens.num_rows // 2
    starts = flat_rows.starts(tokens.row_ids, tokens.num_rows)
    sizes = starts[1:] - starts[:-1]
    size_a, size_b = truncated_sizes(
        sizes[:num_pairs], sizes[num_pairs:], max_seq_length
    )
    return pack_ranges(
        tokens.ids,
        Ranges(starts=starts[:num_pairs], sizes=size_a),
        Ranges(starts=starts[num_pairs:-1], sizes=size_b),
        is_pair=size_b > 0,
        special=special,
    )


def pack_ranges(
    ids: tf.Tensor,
    first: Ranges,
    second: Ranges,
    *,
    is_pair: tf.Tensor | bool = True,
    special: SpecialIds,
    min_length: int = _NUM_SPECIAL,
) -> dict[str, tf.Tensor]:
    """Makes `[CLS] a [SEP] b [SEP]` of tokens, or `[CLS] a [SEP]`.

    Args:
        ids: Int32 `[M]`, the tokens of all texts.
        first: The part that each row begins with.
        second: The other part, which may be empty.
        is_pair: Bool `[R]`, or for all rows: is there a second `[SEP]`?
        special: Ids of the special tokens.
        min_length: Length of the result at least.

    Returns:
        Int32 `[R, S]`, padded to the longest row: `input_ids`, `input_mask`
        and `segment_ids`.
    """
    size_a, size_b = first.sizes[:, None], second.sizes[:, None]  # [R, 1]
    is_pair = tf.broadcast_to(is_pair, tf.shape(first.sizes))[:, None]
    end_a = size_a + 1
    end = end_a + tf.where(is_pair, size_b + 2, 1)
    length = tf.reduce_max(tf.concat([end, [[min_length]]], 0))
    place = tf.range(length)[None]  # [1, S]
    is_a = (place > 0) & (place < end_a)
    is_b = (place > end_a) & (place <= end_a + size_b)
    source = tf.where(
        is_a,
        first.starts[:, None] + place - 1,
        second.starts[:, None] + place - end_a - 1,
    )
    source = tf.where(is_a | is_b, source, flat_rows.size(ids))
    input_ids = tf.gather(tf.concat([ids, [special.sep]], 0), source)
    input_ids = tf.where(place == 0, special.cls, input_ids)
    is_real = place < end
    return {
        "input_ids": tf.where(is_real, input_ids, special.pad),
        "input_mask": tf.cast(is_real, tf.int32),
        "segment_ids": tf.cast(is_real & (place > end_a), tf.int32),
    }


def truncated_sizes(
    size_a: tf.Tensor, size_b: tf.Tensor, max_seq_length: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns how many tokens of each text stay.

    Args:
        size_a: Int32, tokens of the first texts, of any shape.
        size_b: Int32, of the second, likewise; 0 where there is none.
        max_seq_length: Longest sequence, special tokens included.
    """
    room = max_seq_length - _NUM_SPECIAL_OF_PAIR
    half = room // 2
    alone = tf.minimum(size_a, max_seq_length - _NUM_SPECIAL)
    beside = tf.minimum(size_a, tf.maximum(room - size_b, room - half))
    return (
        tf.where(size_b > 0, beside, alone),
        tf.minimum(size_b, tf.maximum(room - size_a, half)),
    )
