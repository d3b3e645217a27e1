"""Attention within a window, whose cost grows with the length alone.

A token attends to the W tokens on either side of it, and to global tokens:
`[CLS]`, and a question. Those attend to all tokens. The text is cut into
blocks of W tokens, and the queries of a block meet the keys of three blocks in
one product, so that all shapes are static and nothing is looked up.

Source: Beltagy et al. 2020, "Longformer: The Long-Document Transformer",
section 3.1; in blocks as in Zaheer et al. 2020, "Big Bird", appendix D.
"""

import numpy as np
from keras import ops

from albert_tf.modeling import Tensor
from albert_tf.modeling.attention import AttentionSublayer

# Added to the dropout index for the probabilities of global tokens: further on
# than any index of a model.
_GLOBAL_OFFSET = 2**20


class AttentionWithinWindow(AttentionSublayer):
    """Applies attention within a window, see the module.

    If more than W tokens of a text are marked as global, the first W are.
    """

    # A block is computed as a whole.
    attends_by_query = False

    @staticmethod
    def attention_mask(
        input_mask: Tensor, segment_ids: Tensor, global_segment: int | None
    ) -> Tensor:
        """Returns the mask of a call, int `[B, 1, 1, S]`.

        If the tokens of a segment are global, it is `[B, 1, 2, S]`: its second
        row marks them and `[CLS]`. The inputs are int `[B, S]`.
        """
        mask = ops.expand_dims(input_mask, (1, 2))
        if global_segment is None:
            return mask
        is_first = ops.arange(ops.shape(input_mask)[1]) == 0
        is_global = ops.logical_or(is_first, segment_ids == global_segment)
        is_global = ops.cast(is_global, mask.dtype) * input_mask
        is_global = ops.expand_dims(is_global, (1, 2))
        return ops.concatenate([mask, is_global], axis=2)

    def attend(
        self, *inputs: Tensor, dropout_index: int, seed: Tensor | None
    ) -> Tensor:
        """Computes attention of all heads, `[B, N, S, D]`."""
        *heads, attention_mask = inputs
        window = self.config.attention_window
        shape = ops.shape(heads[0])
        # Not `-length % window`: ONNX computes another remainder.
        padding = window - 1 - (shape[2] - 1) % window
        query, key, value = (
            ops.pad(tensor, [(0, 0), (0, 0), (0, padding), (0, 0)])
            for tensor in heads
        )
        marks = ops.pad(attention_mask[:, 0], [(0, 0), (0, 0), (0, padding)])
        is_global = _global_tokens(marks, window)  # [B, G, S]
        is_local = 1 - ops.sum(is_global, axis=1)  # [B, S]
        select = ops.expand_dims(ops.cast(is_global, query.dtype), 1)
        of_local = super().attend(
            _blocks(query, window),
            _met(key, select, window),
            _met(value, select, window),
            # A global token is met once, as such.
            _block_mask(marks[:, 0] * is_local, is_global, window),
            dropout_index=dropout_index,
            seed=seed,
        )
        of_local = ops.reshape(of_local, ops.shape(query))
        of_global = super().attend(
            ops.matmul(select, query),
            key,
            value,
            ops.expand_dims(marks[:, :1], 1),
            dropout_index=dropout_index + _GLOBAL_OFFSET,
            seed=seed,
        )
        of_global = ops.matmul(ops.swapaxes(select, 2, 3), of_global)
        is_local = ops.equal(ops.expand_dims(is_local, (1, 3)), 1)
        attended = ops.where(is_local, of_local, of_global)
        return ops.slice(attended, (0, 0, 0, 0), shape)


def _global_tokens(marks: Tensor, window: int) -> Tensor:
    """Returns int `[B, G, S]`, 1 where a token is the g-th global one.

    `marks` are int `[B, 1 or 2, S]`, see `attention_mask`.
    """
    if marks.shape[1] == 1:
        is_first = ops.arange(ops.shape(marks)[2]) == 0
        return marks * ops.cast(is_first, marks.dtype)
    is_marked = marks[:, 1:]
    counts = ops.cumsum(is_marked, axis=2) * is_marked
    all_counts = ops.arange(1, window + 1, dtype=counts.dtype)
    # Not `==`, of whose shape TensorFlow forgets the rank.
    is_global = ops.equal(counts, all_counts[:, None])
    return ops.cast(is_global, marks.dtype)


def _met(inputs: Tensor, select: Tensor, window: int) -> Tensor:
    """Returns the keys or values of three blocks, and of the global tokens.

    They are `[B, N, S / W, 3 W + G, D]`.
    """
    neighbours = _neighbours(inputs, window)
    batch, heads, num_blocks, _, width = ops.shape(neighbours[0])
    everywhere = ops.expand_dims(ops.matmul(select, inputs), 2)
    shape = (batch, heads, num_blocks, select.shape[2], width)
    everywhere = ops.broadcast_to(everywhere, shape)
    return ops.concatenate([*neighbours, everywhere], axis=3)


def _block_mask(is_local: Tensor, is_global: Tensor, window: int) -> Tensor:
    """Returns int `[B, 1, S / W, W, 3 W + G]`, 1 where a key is attended to."""
    is_local = ops.expand_dims(is_local, (1, 3))
    near = ops.concatenate(_neighbours(is_local, window), axis=3)
    batch, _, num_blocks, *_ = ops.shape(near)
    near = ops.swapaxes(near, 3, 4) * _band(window)
    exists = ops.expand_dims(ops.sum(is_global, axis=2), (1, 2, 3))
    shape = (batch, 1, num_blocks, window, is_global.shape[1])
    exists = ops.broadcast_to(exists, shape)
    return ops.concatenate([near, exists], axis=4)


def _neighbours(inputs: Tensor, window: int) -> list[Tensor]:
    """Returns the block before each block, it, and the one after it."""
    ends = [(0, 0), (0, 0), (window, window), (0, 0)]
    blocks = _blocks(ops.pad(inputs, ends), window)
    batch, heads, num_blocks, *rest = ops.shape(blocks)
    shape = (batch, heads, num_blocks - 2, *rest)
    # The gradient of an index, `blocks[:, :, 1:]`, is slow on TensorFlow.
    return [ops.slice(blocks, (0, 0, i, 0, 0), shape) for i in range(3)]


def _blocks(inputs: Tensor, window: int) -> Tensor:
    """Splits `[B, N, S, D]` into blocks, `[B, N, S / W, W, D]`."""
    batch, heads, length, width = ops.shape(inputs)
    return ops.reshape(inputs, (batch, heads, length // window, window, width))


def _band(window: int) -> np.ndarray:
    """Returns int32 `[W, 3 W]`, 1 where a key is at most W from the query."""
    distance = np.arange(3 * window) - window - np.arange(window)[:, None]
    return np.where(np.abs(distance) <= window, 1, 0).astype("int32")
