import numpy as np

from albert_tf.modeling import heads
from albert_tf.modeling.heads import OutputLayer


def test_weights_are_stored_by_output():
    layer = OutputLayer(3, hidden_size=8, seed=0, name="head")
    inputs = np.random.default_rng(0).standard_normal((2, 5, 8)).astype("f")
    layer.output_bias.assign([1, -1, 2])

    logits = layer(inputs)

    weights = np.asarray(layer.output_weights)
    assert weights.shape == (3, 8)
    np.testing.assert_allclose(
        logits, inputs @ weights.T + [1, -1, 2], rtol=1e-5
    )


def test_first_values_are_those_of_the_original_whatever_the_config():
    layer = OutputLayer(500, hidden_size=80, seed=0, name="head")

    # A normal distribution of deviation 0.02, cut at two deviations.
    deviation = np.asarray(layer.output_weights).std()
    assert abs(deviation - 0.02 * 0.8796) < 3e-4


def test_gathers_each_row_at_its_own_positions():
    sequence = np.arange(2 * 4 * 3, dtype="float32").reshape(2, 4, 3)
    positions = np.array([[3, 0], [1, 1]], "int32")

    result = heads.gather_positions(sequence, positions)

    expected = [sequence[0, [3, 0]], sequence[1, [1, 1]]]
    np.testing.assert_array_equal(result, expected)


def test_the_word_embeddings_are_the_decoder(tiny_config):
    head = heads.MaskedLmHead(tiny_config, seed=0)
    head.output_bias.assign(np.arange(13) * 100)
    sequence = np.random.default_rng(0).standard_normal((2, 5, 8)).astype("f")
    positions = np.array([[1, 2, 4], [2, 0, 0]], "int32")
    table = np.zeros((13, 4), "float32")

    logits = np.asarray(head(sequence, positions, table))
    np.testing.assert_array_equal(
        logits, np.broadcast_to(np.arange(13) * 100, (2, 3, 13))
    )

    table[5, 0] = 1.0  # only token 5 gets a score other than its bias
    changed = np.asarray(head(sequence, positions, table)) != logits
    np.testing.assert_array_equal(np.unique(np.where(changed)[2]), [5])


def test_the_sentence_order_head_is_an_output_layer(tiny_config):
    head = heads.SentenceOrderHead(tiny_config, seed=0)

    assert head.output_weights.shape == (2, 8)
    # `initializer_range` is 0.5, not the 0.02 of the tasks.
    assert np.abs(head.output_weights).max() > 0.1
