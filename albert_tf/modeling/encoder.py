"""The stack of Transformer blocks, after a projection from E to H.

Source: Lan et al. 2020, section 3.1 and table 4 (cross-layer parameter
sharing); google-research/albert, `modeling.transformer_model`.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from keras import ops

from albert_tf import config as config_lib
from albert_tf.modeling import adapters, base, dropout, fused, layers
from albert_tf.modeling.attention import AttentionSublayer
from albert_tf.modeling.feed_forward import FeedForwardSublayer
from albert_tf.modeling.fused import shared_weights
from albert_tf.modeling.windows import AttentionWithinWindow

_ATTENTION_SITES = dropout.SITES_PER_BLOCK - 1

Block = Callable[..., Any]


def apply_block(
    hidden: Any,
    attention_mask: Any,
    *,
    attention: Callable[..., Any],
    feed_forward: Callable[..., Any],
    read_at: Any | None = None,
    site: int = 0,
    **options: Any,
) -> Any:
    """Applies one block of the stack: attention, then feed-forward.

    `options` are the `seed` and the `fusion` of both sublayers.
    """
    hidden = attention(
        hidden, attention_mask, read_at=read_at, site=site, **options
    )
    return feed_forward(hidden, site=site + _ATTENTION_SITES, **options)


def at_first_position(block: Block) -> Block:
    """Returns a block that computes the vectors of `[CLS]`, `[B, 1, H]`."""

    def call(hidden: Any, attention_mask: Any) -> Any:
        first = ops.zeros((ops.shape(hidden)[0], 1), "int32")
        return block(hidden, attention_mask, read_at=first)

    return call


def walk(
    blocks: Sequence[Block],
    hidden: Any,
    attention_mask: Any,
    between_blocks: Callable[[Any, Any], tuple[Any, Any]] | None = None,
) -> list[Any]:
    """Passes sequences through blocks: in training, early exit and export.

    `between_blocks` is called before each block but the first, and returns the
    hidden states and the mask of the sequences that go on. Returns `hidden`,
    `[B, S, H]`, and then the output of every block.
    """
    hidden_states = [hidden]
    for index, block in enumerate(blocks):
        if between_blocks and index:
            hidden, attention_mask = between_blocks(hidden, attention_mask)
        hidden = block(hidden, attention_mask)
        hidden_states.append(hidden)
    return hidden_states


@base.register
class Encoder(base.AlbertLayer):
    """Applies blocks that share weights to a sequence.

    A block is an attention sublayer and a feed-forward sublayer; each layer
    runs `inner_group_num` blocks. `attention_sublayers` and
    `feed_forward_sublayers` hold the distinct sublayers, named after their
    set of weights and their place in it; `sublayers_of_blocks` has, for each
    block of the stack, the indices of the two that it uses.

    Call arguments:
        embedded: Float tensor `[B, S, E]`.
        attention_mask: Int tensor `[B, 1, 1, S]` or `[B, 1, S, S]`, 1 where a
            key may be attended to.
        depth: Number of layers to compute, the first ones; None for all.
        recompute: Whether only inputs and outputs of sublayers are kept for
            the gradient, and the rest is computed again: more time, much less
            memory.
        read: Function of the input of the last block, which computes only
            what is read of it. It returns that input, its attention mask, and
            the positions, int `[B, Q]`. None to compute all positions.

    Returns:
        A list of float tensors `[B, S, H]` in the compute dtype: the projected
        embeddings, then the output of every block; with `read`, the last one
        is `[B, Q, H]`.
    """

    default_name = "encoder"

    def __init__(self, config: config_lib.AlbertConfig, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        num_inner = config.inner_group_num
        self.embedding_projection = None
        if config.embedding_size != config.hidden_size:
            self.embedding_projection = layers.dense(
                self,
                "embedding_projection",
                config.embedding_size,
                config.hidden_size,
            )
        self.attention_sublayers = self._sublayers(
            AttentionWithinWindow
            if config.attention_window
            else AttentionSublayer,
            "attention",
            config.num_weight_sets("attention"),
        )
        self.feed_forward_sublayers = self._sublayers(
            FeedForwardSublayer, "feed_forward", config.num_weight_sets("ffn")
        )
        self.sublayers_of_blocks = tuple(
            (
                config.weight_set("attention", layer) * num_inner + inner,
                config.weight_set("ffn", layer) * num_inner + inner,
            )
            for layer in range(config.num_hidden_layers)
            for inner in range(num_inner)
        )
        if config.adapter_rank:
            adapters.add_to(self)

    def _sublayers(self, layer_class: Any, kind: str, num_sets: int) -> Any:
        names = [
            f"{kind}_{weight_set}_{inner}"
            for weight_set in range(num_sets)
            for inner in range(self.config.inner_group_num)
        ]
        return [
            layer_class(
                self.config,
                seed=layers.derive_seed(self.seed, name),
                dtype=self.dtype_policy,
                name=name,
            )
            for name in names
        ]

    def call(
        self,
        embedded: Any,
        attention_mask: Any,
        seed: Any | None = None,
        depth: int | None = None,
        recompute: bool = False,
        fusion: fused.Fusion | None = None,
        read: Callable[[Any], tuple[Any, Any, Any]] | None = None,
    ) -> list[Any]:
        hidden = self.project(embedded, fusion)  # [B, S, H]
        blocks = self.blocks(seed, depth, recompute, fusion)
        if read is None:
            return walk(blocks, hidden, attention_mask)
        *blocks, last = blocks
        hidden_states = walk(blocks, hidden, attention_mask)
        hidden, attention_mask, read_at = read(hidden_states[-1])
        return [*hidden_states, last(hidden, attention_mask, read_at=read_at)]

    def project(self, embedded: Any, fusion: fused.Fusion | None = None) -> Any:
        """Returns the input of the first block, `[B, S, H]`."""
        if self.embedding_projection is None:
            return embedded
        return self.embedding_projection(embedded, fusion=fusion)

    def blocks(
        self,
        seed: Any | None = None,
        depth: int | None = None,
        recompute: bool = False,
        fusion: fused.Fusion | None = None,
    ) -> list[Block]:
        """Returns the blocks of the stack, each to be called once, in order.

        The arguments are those of the call.
        """
        num_blocks = len(self.sublayers_of_blocks)
        if depth is not None:
            num_blocks = depth * self.config.inner_group_num
        num_attentions = len(self.attention_sublayers)
        order = []
        for attention, feed_forward in self.sublayers_of_blocks[:num_blocks]:
            order += [attention, num_attentions + feed_forward]
        calls = shared_weights.calls(
            [*self.attention_sublayers, *self.feed_forward_sublayers],
            order,
            recompute=recompute,
            fusion=fusion,
        )
        blocks: list[Block] = []
        for index in range(num_blocks):
            attention_call, feed_forward_call = calls[2 * index :][:2]
            block = functools.partial(
                apply_block,
                attention=attention_call,
                feed_forward=feed_forward_call,
                seed=seed,
                site=dropout.block_site(index),
                fusion=fusion,
            )
            blocks.append(block)
        return blocks

    def compute_output_shape(self, input_shape: Any) -> Any:
        shape = (*input_shape[:-1], self.config.hidden_size)
        return [shape] * (len(self.sublayers_of_blocks) + 1)
