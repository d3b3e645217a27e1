"""Attention within a window, whose cost grows with the length alone.

A token attends to the W tokens on either side of it, and to global tokens:
`[CLS]`, and a question. Those attend to all tokens. The text is cut into
blocks of W tokens, and the queries of a block meet the keys of three blocks in
one product, so that all shapes are static and nothing is looked up.

Source: Beltagy et al. 2020, "Longformer: The Long-Document Transformer",
section 3.1; in blocks as in Zaheer et al. 2020, "Big Bird", appendix D.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

# A dropout site of the probabilities of global tokens, counted from that of
# the others; further on than any site of a model.
_GLOBAL_SITE = 2**20


def attention_mask(
    input_mask: Any, segment_ids: Any, global_segment: int | None
) -> Any:
    """Returns the mask that `attend` takes, int `[B, 1, 1, S]`.

    The inputs are int `[B, S]`. If the tokens of a segment are global, the
    mask is `[B, 1, 2, S]`: its second row marks them and `[CLS]`.
    """
    mask = ops.expand_dims(input_mask, (1, 2))
    if global_segment is None:
        return mask
    is_first = ops.arange(ops.shape(input_mask)[1]) == 0
    is_global = ops.logical_or(is_first, segment_ids == global_segment)
    is_global = ops.cast(is_global, mask.dtype) * input_mask
    return ops.concatenate([mask, ops.expand_dims(is_global, (1, 2))], axis=2)


def attend(
    attend_to: Callable[..., Any],
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    *,
    window: int,
    site: int,
) -> Any:
    """Computes attention within a window, `[B, S, H]`.

    Args:
        attend_to: Computes attention, `[B, Q, H]`, of queries `[B, Q, H]` to
            keys and values `[B, K, H]`, given a mask `[B, 1, 1 or Q, K]` and a
            dropout site.
        query: Float tensor `[B, S, H]`, of all heads.
        key: The same.
        value: The same.
        mask: Int tensor, see `attention_mask`. In a text with more than W
            tokens that are marked as global, the first W are.
        window: W.
        site: Dropout site.
    """
    length = ops.shape(query)[1]
    # Not `-length % window`: ONNX computes another remainder.
    padding = window - 1 - (length - 1) % window
    query, key, value = (
        ops.pad(tensor, [(0, 0), (0, padding), (0, 0)])
        for tensor in (query, key, value)
    )
    marks = ops.pad(mask[:, 0], [(0, 0), (0, 0), (0, padding)])
    is_global = _global_tokens(marks, window)  # [B, G, S]
    select = ops.cast(is_global, query.dtype)
    is_local = 1 - ops.sum(is_global, axis=1)  # [B, S]
    batch, padded_length, width = ops.shape(query)
    of_local = attend_to(
        ops.reshape(query, (-1, window, width)),
        _met(key, select, window),
        _met(value, select, window),
        # A global token is met once, as such.
        _block_mask(marks[:, 0] * is_local, is_global, window),
        site=site,
    )
    of_local = ops.reshape(of_local, (batch, padded_length, width))
    of_global = attend_to(
        ops.matmul(select, query),
        key,
        value,
        ops.expand_dims(marks[:, :1], 1),
        site=site + _GLOBAL_SITE,
    )
    of_global = ops.matmul(ops.swapaxes(select, 1, 2), of_global)
    is_local = ops.expand_dims(is_local, 2) == 1
    return ops.where(is_local, of_local, of_global)[:, :length]


def _global_tokens(marks: Any, window: int) -> Any:
    """Returns int `[B, G, S]`, 1 where a token is the g-th global one.

    `marks` are int `[B, 1 or 2, S]`, see `attention_mask`.
    """
    if marks.shape[1] == 1:
        is_first = ops.arange(ops.shape(marks)[2]) == 0
        return marks * ops.cast(is_first, marks.dtype)
    is_marked = marks[:, 1:]
    numbers = ops.cumsum(is_marked, axis=2) * is_marked
    all_numbers = ops.arange(1, window + 1, dtype=numbers.dtype)
    return ops.cast(numbers == all_numbers[:, None], marks.dtype)


# What the queries of a block meet: three blocks, and the global tokens.


def _met(inputs: Any, select: Any, window: int) -> Any:
    """Returns keys or values, `[B S / W, 3 W + G, H]`."""
    in_windows = _in_windows(inputs, window)
    batch, num_blocks, _, width = ops.shape(in_windows)
    num_global = select.shape[1]
    everywhere = ops.expand_dims(ops.matmul(select, inputs), 1)
    everywhere = ops.broadcast_to(
        everywhere, (batch, num_blocks, num_global, width)
    )
    met = ops.concatenate([in_windows, everywhere], axis=2)
    return ops.reshape(met, (-1, 3 * window + num_global, width))


def _block_mask(is_local: Any, is_global: Any, window: int) -> Any:
    """Returns int `[B S / W, 1, W, 3 W + G]`, 1 where a key is attended to."""
    near = _in_windows(ops.expand_dims(is_local, 2), window)
    batch, num_blocks, *_ = ops.shape(near)
    near = ops.reshape(near, (-1, 1, 1, 3 * window)) * _band(window)
    num_global = is_global.shape[1]
    exists = ops.expand_dims(ops.sum(is_global, axis=2), (1, 2))
    exists = ops.broadcast_to(exists, (batch, num_blocks, window, num_global))
    exists = ops.reshape(exists, (-1, 1, window, num_global))
    return ops.concatenate([near, exists], axis=3)


def _in_windows(inputs: Any, window: int) -> Any:
    """Returns each block with its neighbours, `[B, S / W, 3 W, H]`."""
    batch, length, width = ops.shape(inputs)
    padded = ops.pad(inputs, [(0, 0), (window, window), (0, 0)])
    shape = (batch, length // window + 2, window, width)
    blocks = ops.reshape(padded, shape)
    neighbours = [blocks[:, :-2], blocks[:, 1:-1], blocks[:, 2:]]
    return ops.concatenate(neighbours, axis=2)


def _band(window: int) -> np.ndarray:
    """Returns int32 `[W, 3 W]`, 1 where a key is at most W from the query."""
    distance = np.arange(3 * window) - window - np.arange(window)[:, None]
    return (np.abs(distance) <= window).astype("int32")
