"""Builds the inputs of a model from the tokens of texts.

Data flow: strings -> `GraphTokenizer` -> `Tokens` -> [this file] -> input_ids,
input_mask, segment_ids.

Source: `text.base`; the results are equal.
"""

import tensorflow as tf

from albert_tf.serving import ragged, signature
from albert_tf.serving.graph_tokenizer import CPU, GraphTokenizer
from albert_tf.serving.ragged import Ranges
from albert_tf.serving.signature import Tensors
from albert_tf.text.vocabulary_file import SpecialIds

# `[CLS]` and `[SEP]`; a pair has a second `[SEP]`.
_NUM_SPECIAL = 2
# The special tokens of a pair, and one token of each text.
MIN_SEQ_LENGTH = 5
# A typical request, for warming up.
EXAMPLE = {
    "text_a": "A first sentence.",
    "text_b": "A second one, some words longer.",
}


def encode_pairs(
    text_a: tf.Tensor,
    text_b: tf.Tensor,
    tokenizer: GraphTokenizer,
    *,
    max_seq_length: int,
    min_length: int = _NUM_SPECIAL,
) -> Tensors:
    """Makes `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]`, from pairs of texts.

    The texts are strings `[B]`. A second text without tokens is left out, with
    its `[SEP]`. Sequences longer than `max_seq_length`, which is at least
    `MIN_SEQ_LENGTH`, are truncated as in `text.base`. The result is the same as
    of `pack_ranges`.
    """
    texts = signature.same_batch(text_a=text_a, text_b=text_b)
    tokens = tokenizer(tf.concat(texts, 0))
    with tf.device(CPU):
        num_pairs = ragged.size(text_a)
        first, second = tokens.rows[:num_pairs], tokens.rows[num_pairs:]
        is_pair = second.sizes > 0
        num_around = tf.where(is_pair, 3, tokenizer.special_ids.num_around(1))
        room = max_seq_length - num_around
        half = room // 2
        size_a = tf.maximum(room - second.sizes, room - half)
        size_b = tf.maximum(room - first.sizes, half)
        return pack_ranges(
            tokens.ids,
            Ranges(first.starts, tf.minimum(first.sizes, size_a)),
            Ranges(second.starts, tf.minimum(second.sizes, size_b)),
            is_pair=is_pair,
            special=tokenizer.special_ids,
            min_length=min_length,
        )


def pack_ranges(
    ids: tf.Tensor,
    first: Ranges,
    second: Ranges,
    *,
    is_pair: tf.Tensor | bool = True,
    special: SpecialIds,
    min_length: int = _NUM_SPECIAL,
) -> Tensors:
    """Makes `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]`, from ranges of tokens.

    Args:
        ids: The token ids of all texts, int32 `[M]`.
        first: For each of R rows, the range of its first text in `ids`.
        second: For each row, the range of its second text.
        is_pair: Bool `[R]`, or one for all rows: whether the row has a second
            text. It must not have one if the vocabulary has no `[SEP]`.
        special: The ids of the special tokens.
        min_length: Rows are padded at least to this length.

    Returns:
        `input_ids`, `input_mask` and `segment_ids`, int32 `[R, S]`, padded to
        the longest row.
    """
    begin, filler, checks = special.num_before, special.sep, []
    if not begin:
        filler = special.pad
        error = "This vocabulary has no [SEP] between two texts. Pass one."
        checks = [tf.Assert(~tf.reduce_any(is_pair), [error])]
    size_a, size_b = first.sizes[:, None], second.sizes[:, None]  # [R, 1]
    is_pair = tf.broadcast_to(is_pair, tf.shape(first.sizes))[:, None]
    end_a = size_a + begin
    end = tf.maximum(end_a + begin * tf.where(is_pair, size_b + 2, 1), 1)
    length = tf.reduce_max(tf.concat([end, [[min_length]]], 0))
    position = tf.range(length)[None]  # [1, S]
    is_a = (position >= begin) & (position < end_a)
    is_b = (position > end_a) & (position <= end_a + size_b)
    indices = tf.where(
        is_a,
        first.starts[:, None] + position - begin,
        second.starts[:, None] + position - end_a - 1,
    )
    indices = tf.where(is_a | is_b, indices, ragged.size(ids))
    with tf.control_dependencies(checks):
        input_ids = ragged.gather_or(ids, indices, filler)
    input_ids = tf.where(position < begin, special.cls or 0, input_ids)
    is_real = position < end
    return {
        "input_ids": tf.where(is_real, input_ids, special.pad),
        "input_mask": tf.cast(is_real, tf.int32),
        "segment_ids": tf.cast(is_real & (position > end_a), tf.int32),
    }
