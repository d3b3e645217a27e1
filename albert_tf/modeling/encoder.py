"""The stack of Transformer blocks, after a projection from E to H.

Source: Lan et al. 2020, section 3.1 and table 4 (cross-layer parameter
sharing); google-research/albert, `modeling.transformer_model`.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from keras import ops

from albert_tf import registry
from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor, base, dropout, layers
from albert_tf.modeling.attention import AttentionSublayer
from albert_tf.modeling.feed_forward import FeedForwardSublayer

Block = Callable[..., Tensor]


def apply_block(
    hidden: Tensor,
    attention_mask: Tensor,
    *,
    attention: Callable[..., Tensor],
    feed_forward: Callable[..., Tensor],
    output_positions: Tensor | None = None,
    dropout_index: int = 0,
    **options: object,
) -> Tensor:
    """Applies the two sublayers of a block: attention, then feed-forward.

    `options` are further arguments of both sublayers: the `seed`, or none.
    """
    hidden = attention(
        hidden,
        attention_mask,
        output_positions=output_positions,
        dropout_index=dropout_index,
        **options,
    )
    last_index = dropout_index + dropout.NUM_PER_BLOCK - 1
    return feed_forward(hidden, dropout_index=last_index, **options)


def at_first_position(block: Block) -> Block:
    """Returns a block that computes `[CLS]` alone, `[B, 1, H]`."""

    def call(hidden: Tensor, attention_mask: Tensor) -> Tensor:
        first = ops.zeros((ops.shape(hidden)[0], 1), "int32")
        return block(hidden, attention_mask, output_positions=first)

    return call


def walk(
    blocks: Sequence[Block], hidden: Tensor, attention_mask: Tensor
) -> list[Tensor]:
    """Applies the blocks one after the other.

    Returns `hidden`, then the output of every block, `[B, S, H]`.
    """
    hidden_states = [hidden]
    for block in blocks:
        hidden = block(hidden, attention_mask)
        hidden_states.append(hidden)
    return hidden_states


class Encoder(base.AlbertLayer):
    """Applies blocks that share weights to a sequence.

    A block is an attention sublayer and a feed-forward sublayer; each layer
    runs `inner_group_num` blocks. Two lists hold the distinct sublayers, named
    `<kind>_<weight set>_<block in the set>`; `sublayers_of_blocks` holds, for
    each block, the indices of its two sublayers in the lists.

    Call arguments:
        embedded: Float tensor `[B, S, E]`.
        attention_mask: Int tensor `[B, 1, 1, S]` or `[B, 1, S, S]`, 1 where a
            key may be attended to.
        depth: Number of layers to compute, from the first on; None for all.
        output_positions: Int tensor `[B, Q]`, the positions that the last
            block computes; None for all.

    Returns:
        A list of float tensors `[B, S, H]` in the compute dtype: the projected
        embeddings, then the output of every block; the last one may be
        `[B, Q, H]`.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        num_inner = config.inner_group_num
        embedding_size, hidden_size = config.embedding_size, config.hidden_size
        self.embedding_projection = None
        if config.has_projection:
            self.embedding_projection = layers.dense(
                self, "embedding_projection", embedding_size, hidden_size
            )
        self.sublayers_of_blocks = tuple(
            (
                config.weight_set("attention", layer) * num_inner + inner,
                config.weight_set("ffn", layer) * num_inner + inner,
            )
            for layer in range(config.num_hidden_layers)
            for inner in range(num_inner)
        )
        attentions, feed_forwards = zip(*self.sublayers_of_blocks, strict=True)
        attention_class = AttentionSublayer
        if config.attention_window:
            attention_class = registry.load(
                registry.COMPUTATION["attention_window"]
            )
        self.attention_sublayers = self._sublayers(
            attention_class, "attention", max(attentions) + 1
        )
        self.feed_forward_sublayers = self._sublayers(
            FeedForwardSublayer, "feed_forward", max(feed_forwards) + 1
        )

    def _sublayers(
        self, layer_class: type[base.AlbertLayer], kind: str, number: int
    ) -> list[base.AlbertLayer]:
        """Creates `number` sublayers, each with its own weights."""
        sublayers = []
        for index in range(number):
            weight_set, inner = divmod(index, self.config.inner_group_num)
            name = f"{kind}_{weight_set}_{inner}"
            seed = layers.derive_seed(self.seed, name)
            sublayer = layer_class(
                self.config, seed=seed, dtype=self.dtype_policy, name=name
            )
            sublayers.append(sublayer)
        return sublayers

    def call(
        self,
        embedded: Tensor,
        attention_mask: Tensor,
        seed: Tensor | None = None,
        depth: int | None = None,
        output_positions: Tensor | None = None,
    ) -> list[Tensor]:
        hidden = self.project(embedded)  # [B, S, H]
        *blocks, last = self.blocks(seed, depth)
        last = functools.partial(last, output_positions=output_positions)
        return walk([*blocks, last], hidden, attention_mask)

    def project(self, embedded: Tensor) -> Tensor:
        """Projects from E to H; returns the first block's input."""
        if self.embedding_projection is None:
            return embedded
        return self.embedding_projection(embedded)

    def blocks(
        self, seed: Tensor | None = None, depth: int | None = None
    ) -> list[Block]:
        """Returns the blocks as functions of hidden vectors and mask."""
        num_blocks = len(self.sublayers_of_blocks)
        if depth is not None:
            num_blocks = depth * self.config.inner_group_num
        sublayers = [*self.attention_sublayers, *self.feed_forward_sublayers]
        order = []
        for attention, feed_forward in self.sublayers_of_blocks[:num_blocks]:
            order += [attention, len(self.attention_sublayers) + feed_forward]
        calls = self.operations.calls(sublayers, order)
        return [
            functools.partial(
                apply_block,
                attention=calls[2 * index],
                feed_forward=calls[2 * index + 1],
                seed=seed,
                # Without dropout, all calls of a sublayer are alike.
                dropout_index=0 if seed is None else dropout.first_index(index),
            )
            for index in range(num_blocks)
        ]

    def compute_output_shape(self, input_shape: Any) -> Any:
        shape = (*input_shape[:-1], self.config.hidden_size)
        return [shape] * (len(self.sublayers_of_blocks) + 1)
