"""The stack of Transformer blocks, after a projection from E to H.

Floor: modeling.

Source: Lan et al. 2020, section 3.1 (cross-layer parameter sharing);
google-research/albert, `modeling.transformer_model`.
"""

from typing import Any

import keras

from albert_tf import config as config_lib
from albert_tf.modeling import dropout, initialization, serialization, sharing
from albert_tf.modeling.attention import AttentionSublayer
from albert_tf.modeling.feed_forward import FeedForwardSublayer

_ATTENTION_SITES = dropout.SITES_PER_BLOCK - 1


@serialization.register
class Encoder(serialization.SerializableLayer):
    """Applies blocks that share weights to a sequence.

    `attention_sublayers` and `feed_forward_sublayers` hold the distinct
    sublayers; `plan` says which of them each block of the stack uses.

    Args:
        config: Configuration of the model.
        output_hidden_states: Whether to return the output of every block.
        seed: Seed of the initial weights.
        dtype: Keras dtype policy.
        name: Name of the layer.

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
        self.plan = plan = sharing.sharing_plan(config)
        self.embedding_projection = self._projection()
        self.attention_sublayers = [
            self._sublayer(AttentionSublayer, "attention", index)
            for index in range(plan.num_attention)
        ]
        self.feed_forward_sublayers = [
            self._sublayer(FeedForwardSublayer, "feed_forward", index)
            for index in range(plan.num_feed_forward)
        ]

    def _projection(self) -> keras.layers.Dense | None:
        if self.config.embedding_size == self.config.hidden_size:
            return None
        return initialization.dense(
            self.config.hidden_size,
            stddev=self.config.initializer_range,
            seed=self.seed,
            name="embedding_projection",
            dtype=self.dtype_policy,
        )

    def _sublayer(self, layer_class: Any, kind: str, index: int) -> Any:
        name = self.plan.sublayer_name(kind, index)
        return layer_class(
            self.config,
            seed=initialization.derive_seed(self.seed, name),
            dtype=self.dtype_policy,
            name=name,
        )

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
        blocks = zip(self.plan.attention, self.plan.feed_forward, strict=True)
        for block, (attention, feed_forward) in enumerate(blocks):
            if self.output_hidden_states:
                hidden_states.append(hidden)
            site = dropout.block_site(block)
            hidden = self.attention_sublayers[attention](
                hidden, attention_mask, seed=seed, site=site
            )
            hidden = self.feed_forward_sublayers[feed_forward](
                hidden, seed=seed, site=site + _ATTENTION_SITES
            )
        return [*hidden_states, hidden]

    def compute_output_shape(self, input_shape: Any) -> Any:
        shape = (*input_shape[:-1], self.config.hidden_size)
        num_others = (
            len(self.plan.attention) if self.output_hidden_states else 0
        )
        return [shape] * (num_others + 1)
