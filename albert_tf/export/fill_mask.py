"""The tokens that fit best where a text says `[MASK]`.

Data flow: text -> [this file] -> ids -> masked-LM logits -> tokens.
Floor: export. Core TensorFlow operations only.

The text is cut at every `[MASK]`, and the parts become tokens apart.

Source: Devlin et al. 2019, section 3.1, for the task; the request is ours.
"""

from collections.abc import Callable

import tensorflow as tf

from albert_tf.export import flat_rows, pair_packing, signature
from albert_tf.export.pair_packing import Ranges
from albert_tf.export.signature import Signature
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
    """Traces the signature `fill_mask`.

    It takes `text` `[B]` and returns `top_pieces`, strings `[B, M, 5]`, the
    likeliest first, and `top_probabilities`, float32 `[B, M, 5]`, where M is
    the largest number of masks in a text. A text with fewer has empty tokens
    of probability 0 behind.

    Args:
        masked_logits: From `positions` int32 `[B, M]` and the inputs of the
            model to float32 `[B, M, V]`.
        text_graph: Makes the tokens.
        max_seq_length: Longest sequence. A text loses what is too long at its
            end; if a `[MASK]` is there, it is an error, as are more than
            `MAX_MASKS`.
    """
    num_top = min(NUM_TOP, text_graph.vocab_size)
    names = tf.constant(text_graph.tokens)

    def fill(text: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.device("/device:CPU:0"):
            tokens = masked_tokens(text, text_graph)
            inputs = _pack(tokens, text_graph, max_seq_length)
            positions, is_mask = _positions(tokens, text_graph, max_seq_length)
        logits = masked_logits(positions=positions, **inputs)
        # A model may have room for more tokens than the vocabulary has.
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
    """Returns the tokens of texts, with the token of `[MASK]` among them."""
    parts, part_rows = split_at_masks(texts)
    tokens = text_graph(parts)
    starts = flat_rows.starts(tokens.row_ids, tokens.num_rows)
    sizes = starts[1:] - starts[:-1]
    has_mask = tf.cast(~flat_rows.is_last(part_rows), tf.int32)
    sources, within = flat_rows.spread(sizes + has_mask)
    # The last place of a part with a mask behind it is the mask's.
    is_mask = within == tf.gather(sizes, sources)
    place = tf.gather(starts, sources) + within
    place = tf.where(is_mask, flat_rows.size(tokens.ids), place)
    mask_id = text_graph.special_ids.mask
    return Tokens(
        ids=tf.gather(tf.concat([tokens.ids, [mask_id]], 0), place),
        row_ids=tf.gather(part_rows, sources),
        num_rows=tf.shape(texts)[0],
    )


def split_at_masks(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns what lies between masks, and from which text it is.

    Args:
        texts: Strings `[B]`.

    Returns:
        Strings `[P]`, one more of each text than it has masks, and int32
        `[P]`.
    """
    code_points, row_ids, _ = flat_rows.decode(texts)
    length = flat_rows.size(code_points)
    padding = tf.zeros([len(MASK)], tf.int32)
    ahead = tf.concat([code_points, padding], 0)
    rows_ahead = tf.concat([row_ids, padding - 1], 0)
    is_mask = tf.fill([length], True)
    for step, character in enumerate(MASK):
        is_mask &= ahead[step : step + length] == ord(character)
        is_mask &= rows_ahead[step : step + length] == row_ids
    num_before = flat_rows.count_before(is_mask)
    # Within a mask: one began at most five places before.
    begun = tf.concat([tf.zeros([len(MASK) - 1], tf.int32), num_before], 0)
    is_kept = num_before[1:] == begun[:length]
    num_rows = tf.shape(texts)[0]
    masks_of_row = tf.math.unsorted_segment_sum(
        tf.cast(is_mask, tf.int32), row_ids, num_rows
    )
    part_rows, _ = flat_rows.spread(masks_of_row + 1)
    # Every row and every mask begins a part.
    part_ids = tf.boolean_mask(row_ids + num_before[1:], is_kept)
    sizes = tf.math.unsorted_segment_sum(
        tf.ones_like(part_ids), part_ids, flat_rows.size(part_rows)
    )
    kept = tf.boolean_mask(code_points, is_kept)
    return flat_rows.encode(kept, sizes), part_rows


def _pack(
    tokens: Tokens, text_graph: TextGraph, max_seq_length: int
) -> dict[str, tf.Tensor]:
    starts = flat_rows.starts(tokens.row_ids, tokens.num_rows)
    sizes = tf.minimum(starts[1:] - starts[:-1], max_seq_length - 2)
    return pair_packing.pack_ranges(
        tokens.ids,
        Ranges(starts=starts[:-1], sizes=sizes),
        Ranges(starts=starts[:-1], sizes=tf.zeros_like(sizes)),
        is_pair=False,
        special=text_graph.special_ids,
    )


def _positions(
    tokens: Tokens, text_graph: TextGraph, max_seq_length: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns where the masks are, and which are there: `[B, M]`."""
    starts = flat_rows.starts(tokens.row_ids, tokens.num_rows)
    masks = flat_rows.indices(tokens.ids == text_graph.special_ids.mask)
    rows = tf.gather(tokens.row_ids, masks)
    places = masks - tf.gather(starts, rows) + 1
    bounds = flat_rows.starts(rows, tokens.num_rows)
    numbers = bounds[1:] - bounds[:-1]
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
                f"A text is cut to {max_seq_length} tokens, and a {MASK} is "
                "behind the cut, at:",
                last,
            ],
        ),
    ]
    with tf.control_dependencies(checks):
        number = tf.range(largest)[None]  # [1, M]
    is_there = number < numbers[:, None]
    source = tf.where(
        is_there, bounds[:-1, None] + number, flat_rows.size(masks)
    )
    return tf.gather(tf.concat([places, [0]], 0), source), is_there
