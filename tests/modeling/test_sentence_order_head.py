import numpy as np

from albert_tf.modeling import sentence_order_head


def test_weights_are_stored_by_output(tiny_config):
    head = sentence_order_head.SentenceOrderHead(tiny_config, seed=0)
    pooled = np.random.default_rng(0).standard_normal((3, 8)).astype("f")
    head.output_bias.assign([1, -1])

    logits = head(pooled)

    weights = np.asarray(head.output_weights)
    assert weights.shape == (2, 8)
    np.testing.assert_allclose(logits, pooled @ weights.T + [1, -1], rtol=1e-5)
