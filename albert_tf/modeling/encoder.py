"""The stack of blocks: projection from E to H, then pass after pass.

Source: Lan et al. 2020, section 3.1 (cross-layer parameter sharing);
google-research/albert, `modeling.transformer_model`.
"""

from typing import Any

import keras

from albert_tf import config as config_lib
from albert_tf.modeling import dropout, initialization, sharing
from albert_tf.modeling.attention import AttentionSublayer
from albert_tf.modeling.feed_forward import FeedForwardSublayer

_ATTENTION_SITES = dropout.SITES_PER_BLOCK - 1


class Encoder(keras.layers.Layer):
    """Passes a sequence through blocks that share weights.

    `attention_sublayers` and `feed_forward_sublayers` hold the distinct
    sublayers; `plan` says which of them each pass uses.

    Args:
        config: Shape of the model.
        seed: Seed of the first values of the weights.
        dtype: Keras dtype policy.
        name: Name of the layer.

    Call arguments:
        embedded: Float tensor `[B, S, E]`.
        attention_mask: Int tensor `[B, 1, 1, S]` or `[B, 1, S, S]`, 1 where a
            key may be attended to.
        seed: Int tensor `[2]`, seed of the dropout masks; None for none.

    Returns:
        A list of float tensors `[B, S, H]` in the compute dtype: the projected
        embeddings, then the output of every block.
    """

    def __init__(
        self,
        config: config_lib.AlbertConfig,
        *,
        seed: int,
        dtype: Any = None,
        name: str = "encoder",
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        self.config = config
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
            self.embedding_projection.build((None, self.config.embedding_size))
        for layer in [*self.attention_sublayers, *self.feed_forward_sublayers]:
            layer.build()

    def call(
        self, embedded: Any, attention_mask: Any, seed: Any | None = None
    ) -> list[Any]:
        hidden = embedded
        if self.embedding_projection is not None:
            hidden = self.embedding_projection(embedded)  # [B, S, H]
        hidden_states = [hidden]
        passes = zip(self.plan.attention, self.plan.feed_forward, strict=True)
        for block_pass, (attention, feed_forward) in enumerate(passes):
            site = dropout.block_site(block_pass)
            hidden = self.attention_sublayers[attention](
                hidden, attention_mask, seed=seed, site=site
            )
            hidden = self.feed_forward_sublayers[feed_forward](
                hidden, seed=seed, site=site + _ATTENTION_SITES
            )
            hidden_states.append(hidden)
        return hidden_states
