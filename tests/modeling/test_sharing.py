import pytest

from albert_tf.config import AlbertConfig
from albert_tf.modeling import sharing


def _plan(**fields):
    return sharing.sharing_plan(
        AlbertConfig(vocab_size=9, num_hidden_layers=4, **fields)
    )


@pytest.mark.parametrize(
    ("strategy", "attention", "feed_forward"),
    [
        ("all", (0, 0, 0, 0), (0, 0, 0, 0)),
        ("attention", (0, 0, 0, 0), (0, 1, 2, 3)),
        ("ffn", (0, 1, 2, 3), (0, 0, 0, 0)),
        ("none", (0, 1, 2, 3), (0, 1, 2, 3)),
    ],
)
def test_strategies_of_the_paper(strategy, attention, feed_forward):
    plan = _plan(parameter_sharing=strategy)

    assert (plan.attention, plan.feed_forward) == (attention, feed_forward)


def test_groups_divide_the_layers_evenly():
    assert _plan(num_hidden_groups=2).attention == (0, 0, 1, 1)


def test_inner_blocks_alternate_within_every_layer():
    plan = _plan(num_hidden_groups=2, inner_group_num=2)

    assert plan.attention == (0, 1, 0, 1, 2, 3, 2, 3)
    assert plan.num_attention == plan.num_feed_forward == 4
    assert plan.sublayer_name("attention", 3) == "attention_1_1"
