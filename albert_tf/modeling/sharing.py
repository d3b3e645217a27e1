"""Parameter sharing: which block of the encoder uses which weights.

A block is an attention sublayer and a feed-forward sublayer, each with the
layer normalization that follows it. The encoder holds the distinct sublayers
of each kind in a list and applies them in the order of two tables of indices,
which are made here.

Floor: modeling. Plain Python: no Keras.

Source: Lan et al. 2020, section 3.1 and table 4; google-research/albert,
`modeling.transformer_model`, for groups and inner blocks.
"""

import dataclasses

from albert_tf import config as config_lib


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharingPlan:
    """The tables of one model, with one entry for each block of the stack.

    There are num_hidden_layers x inner_group_num blocks.

    Args:
        attention: Index of the attention sublayer of each block.
        feed_forward: Index of the feed-forward sublayer of each block.
        inner_group_num: Distinct blocks in one set of weights.
    """

    attention: tuple[int, ...]
    feed_forward: tuple[int, ...]
    inner_group_num: int

    @property
    def num_attention(self) -> int:
        """Number of distinct attention sublayers."""
        return max(self.attention) + 1

    @property
    def num_feed_forward(self) -> int:
        """Number of distinct feed-forward sublayers."""
        return max(self.feed_forward) + 1

    def sublayer_name(self, kind: str, index: int) -> str:
        """Returns the name of a sublayer: kind, set, index within the set.

        Args:
            kind: `attention` or `feed_forward`.
            index: Its index in the encoder's list of that kind.
        """
        weight_set, inner = divmod(index, self.inner_group_num)
        return f"{kind}_{weight_set}_{inner}"


def sharing_plan(config: config_lib.AlbertConfig) -> SharingPlan:
    """Returns the tables of a config.

    Shared sublayers have one set of weights for each group of layers, others
    one set for each layer.

    >>> plan = sharing_plan(config_lib.AlbertConfig(
    ...     vocab_size=9, num_hidden_layers=4, num_hidden_groups=2,
    ...     parameter_sharing="attention"))
    >>> plan.attention, plan.feed_forward
    ((0, 0, 1, 1), (0, 1, 2, 3))
    """
    sharing = config.parameter_sharing
    return SharingPlan(
        attention=_table(config, is_shared=sharing in ("all", "attention")),
        feed_forward=_table(config, is_shared=sharing in ("all", "ffn")),
        inner_group_num=config.inner_group_num,
    )


def _table(
    config: config_lib.AlbertConfig, *, is_shared: bool
) -> tuple[int, ...]:
    layers = range(config.num_hidden_layers)
    weight_sets = [config.group_of_layer(x) if is_shared else x for x in layers]
    inner = range(config.inner_group_num)
    return tuple(s * len(inner) + i for s in weight_sets for i in inner)
