"""The signature `fill_mask`: the likeliest tokens where a text has `[MASK]`.

The text is cut at every `[MASK]`, and the parts are tokenized separately.

Data flow: text -> [this file] -> ids -> masked-LM logits -> tokens.
Floor: export. Core TensorFlow operations only.

Source: Devlin et al. 2019, section 3.1, for the task; the signature is ours.
"""

from collections.abc import Callable

import tensorflow as tf

from albert_tf.export import pair_packing, ragged, signature
from albert_tf.export.pair_packing import Ranges
from albert_tf.export.signature import Signature, Tensors
from albert_tf.export.tokens import TextGraph, Tokens

NAME = "fill_mask"
MASK = "[MASK]"
MAX_MASKS = 8
NUM_TOP = 5
_WARMUP_TEXT = "The capital of France is [MASK]."


def make_signature(
    masked_logits: Callable[..., tf.Tensor],
    text_graph: TextGraph,
    *,
    max_seq_length: int,
) -> Signature:
    """Traces the signature.

    It takes `text` `[B]` and returns `top_pieces`, strings `[B, M, 5]`, the
    likeliest first, and `top_probabilities`, float32 `[B, M, 5]`, where M is
    the largest number of masks in a text. Texts with fewer masks are padded
    with empty tokens of probability 0.

    Args:
        masked_logits: Maps `positions` int32 `[B, M]` and the inputs of the
            model to float32 `[B, M, V]`.
        text_graph: Makes the tokens.
        max_seq_length: Longest sequence. Longer texts are cut at their end.
            The graph fails if a `[MASK]` would be cut off, or if there are
            more than `MAX_MASKS`.
    """
    num_top = min(NUM_TOP, text_graph.vocab_size)
    names = tf.constant(text_graph.tokens)

    def fill(text: tf.Tensor) -> Tensors:
        with tf.device("/device:CPU:0"):
            tokens = masked_tokens(text, text_graph)
            inputs = _pack(tokens, text_graph, max_seq_length)
            positions, is_mask = _positions(tokens, text_graph, max_seq_length)
        logits = masked_logits(positions=positions, **inputs)
        # The model may have more outputs than the vocabulary has tokens.
        logits = logits[:, :, : text_graph.vocab_size]
        values, ids = tf.math.top_k(tf.nn.softmax(logits), num_top)
        is_mask = is_mask[:, :, None]
        return {
            "top_pieces": tf.where(is_mask, tf.gather(names, ids), ""),
            "top_probabilities": tf.where(is_mask, values, 0.0),
        }

    return Signature(
        name=NAME,
        function=signature.trace(fill, text=signature.strings(None)),
        warmup=signature.text_requests(text=_WARMUP_TEXT),
    )


def masked_tokens(texts: tf.Tensor, text_graph: TextGraph) -> Tokens:
    """Tokenizes texts, with the id of `[MASK]` for each mask."""
    parts, part_rows = split_at_masks(texts)
    tokens = text_graph(parts)
    starts, sizes = tokens.rows()
    has_mask = tf.cast(~ragged.is_last(part_rows), tf.int32)
    sources, within = ragged.expand(sizes + has_mask)
    # A part that is followed by a mask has one more place than tokens.
    is_mask = within == tf.gather(sizes, sources)
    place = tf.gather(starts, sources) + within
    place = tf.where(is_mask, ragged.size(tokens.ids), place)
    mask_id = text_graph.special_ids.mask
    return Tokens(
        ids=tf.gather(tf.concat([tokens.ids, [mask_id]], 0), place),
        row_ids=tf.gather(part_rows, sources),
        num_rows=tf.shape(texts)[0],
    )


def split_at_masks(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Splits strings `[B]` at their masks.

    Returns:
        The parts, strings `[P]`, one more than masks for each text, and the
        text of each part, int32 `[P]`.
    """
    code_points, row_ids, _ = ragged.decode(texts)
    length = ragged.size(code_points)
    padding = tf.zeros([len(MASK)], tf.int32)
    ahead = tf.concat([code_points, padding], 0)
    rows_ahead = tf.concat([row_ids, padding - 1], 0)
    is_mask = tf.fill([length], True)
    for step, character in enumerate(MASK):
        is_mask &= ahead[step : step + length] == ord(character)
        is_mask &= rows_ahead[step : step + length] == row_ids
    num_before = ragged.count_before(is_mask)
    # A character lies in a mask if one started at most five places before.
    started = tf.concat([tf.zeros([len(MASK) - 1], tf.int32), num_before], 0)
    is_kept = num_before[1:] == started[:length]
    num_rows = tf.shape(texts)[0]
    masks_of_row = tf.math.unsorted_segment_sum(
        tf.cast(is_mask, tf.int32), row_ids, num_rows
    )
    part_rows, _ = ragged.expand(masks_of_row + 1)
    # A part starts at the start of each row and after each mask.
    part_ids = tf.boolean_mask(row_ids + num_before[1:], is_kept)
    lengths = tf.math.unsorted_segment_sum(
        tf.ones_like(part_ids), part_ids, ragged.size(part_rows)
    )
    kept = tf.boolean_mask(code_points, is_kept)
    return ragged.encode(kept, lengths), part_rows


def _pack(
    tokens: Tokens, text_graph: TextGraph, max_seq_length: int
) -> Tensors:
    starts, sizes = tokens.rows()
    sizes = tf.minimum(sizes, max_seq_length - 2)
    return pair_packing.pack_ranges(
        tokens.ids,
        Ranges(starts=starts, sizes=sizes),
        Ranges(starts=starts, sizes=tf.zeros_like(sizes)),
        is_pair=False,
        special=text_graph.special_ids,
    )


def _positions(
    tokens: Tokens, text_graph: TextGraph, max_seq_length: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the positions of the masks, and which are not padding.

    Both are `[B, M]`.
    """
    starts, _ = tokens.rows()
    masks = ragged.indices(tokens.ids == text_graph.special_ids.mask)
    rows = tf.gather(tokens.row_ids, masks)
    places = masks - tf.gather(starts, rows) + 1
    splits = ragged.row_splits(rows, tokens.num_rows)
    numbers = splits[1:] - splits[:-1]
    largest = tf.reduce_max(tf.concat([numbers, [0]], 0))
    last = tf.reduce_max(tf.concat([places, [0]], 0))
    checks = [
        tf.Assert(
            largest <= MAX_MASKS,
            [f"A text may have at most {MAX_MASKS} {MASK}. Received:", largest],
        ),
        tf.Assert(
            last < max_seq_length - 1,
            [
                f"Texts are cut to {max_seq_length} tokens, and a {MASK} lies "
                "behind the cut. Received: a mask at position",
                last,
            ],
        ),
    ]
    with tf.control_dependencies(checks):
        number = tf.range(largest)[None]  # [1, M]
    is_mask = number < numbers[:, None]
    source = tf.where(is_mask, splits[:-1, None] + number, ragged.size(masks))
    return ragged.gather_or_zero(places, source), is_mask
