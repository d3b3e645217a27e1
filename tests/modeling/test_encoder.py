import numpy as np

from albert_tf.modeling import encoder
from tests import tiny

_MASK = np.ones((2, 1, 1, 5), "int32")


def _encoder(**changes):
    layer = encoder.Encoder(tiny.config(**changes), seed=0)
    layer.build()
    return layer


def _embedded(width):
    return np.random.default_rng(0).standard_normal((2, 5, width)).astype("f")


def test_there_is_no_projection_between_equal_widths():
    layer = _encoder(embedding_size=8)
    embedded = _embedded(8)

    assert layer.embedding_projection is None
    np.testing.assert_array_equal(layer(embedded, _MASK)[0], embedded)


def test_groups_divide_the_layers_and_inner_blocks_alternate_in_each():
    layer = _encoder(
        num_hidden_layers=4, num_hidden_groups=2, inner_group_num=2
    )

    order = [0, 1, 0, 1, 2, 3, 2, 3]
    assert layer.sublayers_of_blocks == tuple(zip(order, order, strict=True))
    names = [sublayer.name for sublayer in layer.attention_sublayers]
    assert names == [f"attention_{x}" for x in ("0_0", "0_1", "1_0", "1_1")]


def test_an_encoder_is_cut_to_a_depth_until_the_block_ends():
    layer = _encoder(inner_group_num=2)
    embedded = _embedded(4)
    whole = layer(embedded, _MASK)

    cut = layer(embedded, _MASK, depth=2)

    assert (len(cut), len(whole)) == (5, 7)
    np.testing.assert_array_equal(cut[-1], whole[4])
