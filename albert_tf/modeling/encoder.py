"""The stack of Transformer blocks, after a projection from E to H.

Source: Lan et al. 2020, section 3.1 and table 4 (cross-layer parameter
sharing); google-research/albert, `modeling.transformer_model`.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from albert_tf import config as config_lib
from albert_tf.modeling import base, dropout, layers, shared_weights
from albert_tf.modeling.attention import AttentionSublayer
from albert_tf.modeling.feed_forward import FeedForwardSublayer
from albert_tf.modeling.shared_weights import LayerCall

_ATTENTION_SITES = dropout.SITES_PER_BLOCK - 1


class _State(threading.local):
    depth: int | None = None
    recomputes: bool = False


_STATE = _State()


@contextlib.contextmanager
def computing(
    *, depth: int | None = None, recomputes: bool = False
) -> Iterator[None]:
    """Says how the encoders that this thread calls in this block compute.

    Args:
        depth: They compute their first `depth` layers only; None for all.
        recomputes: Whether only inputs and outputs of sublayers are kept for
            the gradient, and the rest is computed again: more time, much less
            memory.
    """
    before = _STATE.depth, _STATE.recomputes
    _STATE.depth, _STATE.recomputes = depth, recomputes
    try:
        yield
    finally:
        _STATE.depth, _STATE.recomputes = before


@base.register
class Encoder(base.SerializableLayer):
    """Applies blocks that share weights to a sequence.

    A block is an attention sublayer and a feed-forward sublayer; each layer
    runs `inner_group_num` blocks. `attention_sublayers` and
    `feed_forward_sublayers` hold the distinct sublayers, named after their
    set of weights and their place in it; `blocks` says which of them each
    block of the stack uses.

    Args:
        output_hidden_states: Whether to return the output of every block.

    Call arguments:
        embedded: Float tensor `[B, S, E]`.
        attention_mask: Int tensor `[B, 1, 1, S]` or `[B, 1, S, S]`, 1 where a
            key may be attended to.
        seed: Int tensor `[2]`, seed of the dropout masks; None drops nothing.

    Returns:
        A list of float tensors `[B, S, H]` in the compute dtype. The last is
        the output of the last block. With `output_hidden_states`, the
        projected embeddings and the outputs of all other blocks precede it;
        without, it is the only one.
    """

    def __init__(
        self,
        config: config_lib.AlbertConfig,
        *,
        output_hidden_states: bool = False,
        seed: int,
        dtype: Any = None,
        name: str = "encoder",
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        self.config = config
        self.output_hidden_states = output_hidden_states
        self.seed = seed
        self.embedding_projection = None
        if config.embedding_size != config.hidden_size:
            self.embedding_projection = layers.dense(
                self, "embedding_projection", config.hidden_size
            )
        self.attention_sublayers = self._sublayers(
            AttentionSublayer, "attention", config.num_weight_sets("attention")
        )
        self.feed_forward_sublayers = self._sublayers(
            FeedForwardSublayer, "feed_forward", config.num_weight_sets("ffn")
        )

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

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Index of the attention and the feed-forward sublayer of each block.

        The blocks are in the order of the stack, see also `computing`.
        """
        config, blocks = self.config, []
        for layer in range(config.num_hidden_layers)[: _STATE.depth]:
            attention, feed_forward = (
                config.weight_set(half, layer) * config.inner_group_num
                for half in ("attention", "ffn")
            )
            for inner in range(config.inner_group_num):
                blocks.append((attention + inner, feed_forward + inner))
        return blocks

    def block_calls(self) -> list[tuple[LayerCall, LayerCall]]:
        """Returns the calls of the two sublayers of each block of the stack.

        Each is to be called once, in the order of the stack.
        """
        kinds = self.attention_sublayers, self.feed_forward_sublayers
        calls = [
            shared_weights.calls(sublayers, order, recomputes=_STATE.recomputes)
            for sublayers, order in zip(
                kinds, zip(*self.blocks, strict=True), strict=True
            )
        ]
        return list(zip(*calls, strict=True))

    def build(self, input_shape: Any = None) -> None:
        if self.embedding_projection is not None:
            self.embedding_projection.build(
                (None, None, self.config.embedding_size)
            )
        for layer in [*self.attention_sublayers, *self.feed_forward_sublayers]:
            layer.build((None, None, self.config.hidden_size))

    def call(
        self, embedded: Any, attention_mask: Any, seed: Any | None = None
    ) -> list[Any]:
        hidden = embedded
        if self.embedding_projection is not None:
            hidden = self.embedding_projection(embedded)  # [B, S, H]
        hidden_states = []
        for block, (attention, feed_forward) in enumerate(self.block_calls()):
            if self.output_hidden_states:
                hidden_states.append(hidden)
            site = dropout.block_site(block)
            hidden = attention(hidden, attention_mask, seed=seed, site=site)
            hidden = feed_forward(
                hidden, seed=seed, site=site + _ATTENTION_SITES
            )
        return [*hidden_states, hidden]

    def compute_output_shape(self, input_shape: Any) -> Any:
        shape = (*input_shape[:-1], self.config.hidden_size)
        num_others = len(self.blocks) if self.output_hidden_states else 0
        return [shape] * (num_others + 1)
