import numpy as np

from albert_tf.modeling import masked_lm_head


def test_gathers_each_row_at_its_own_positions():
    sequence = np.arange(2 * 4 * 3, dtype="float32").reshape(2, 4, 3)
    positions = np.array([[3, 0], [1, 1]], "int32")

    result = masked_lm_head.gather_positions(sequence, positions)

    expected = [sequence[0, [3, 0]], sequence[1, [1, 1]]]
    np.testing.assert_array_equal(result, expected)


def test_the_word_embeddings_are_the_decoder(tiny_config):
    head = masked_lm_head.MaskedLmHead(tiny_config, seed=0)
    head.output_bias.assign(np.arange(13) * 100)
    sequence = np.random.default_rng(0).standard_normal((2, 5, 8)).astype("f")
    positions = np.array([[1, 2, 4], [2, 0, 0]], "int32")
    table = np.zeros((13, 4), "float32")

    logits = np.asarray(head(sequence, positions, table))
    np.testing.assert_array_equal(
        logits, np.broadcast_to(np.arange(13) * 100, (2, 3, 13))
    )

    table[5, 0] = 1.0  # only piece 5 gets a score other than its bias
    changed = np.asarray(head(sequence, positions, table)) != logits
    np.testing.assert_array_equal(np.unique(np.where(changed)[2]), [5])


def test_logits_are_float32_in_mixed_precision(tiny_config):
    head = masked_lm_head.MaskedLmHead(
        tiny_config, seed=0, dtype="mixed_bfloat16"
    )

    logits = head(
        np.ones((2, 5, 8), "float32"),
        np.zeros((2, 3), "int32"),
        np.ones((13, 4), "float32"),
    )

    assert logits.dtype == "float32"
