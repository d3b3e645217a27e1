import numpy as np

from albert_tf.modeling import beam_span_head


def test_forbidden_positions_have_no_probability():
    logits = np.array([[1.0, 5.0, 2.0]], "f")
    p_mask = np.array([[0.0, 1.0, 0.0]], "f")

    log_probs = np.asarray(beam_span_head.masked_log_probs(logits, p_mask))

    probabilities = np.exp(log_probs[0])
    wanted = np.exp([1.0, -np.inf, 2.0]) / (np.e + np.e**2)
    np.testing.assert_allclose(probabilities, wanted, rtol=1e-6)


def test_an_end_is_scored_by_its_vector_and_that_of_its_start(tiny_config):
    head = beam_span_head.BeamSpanHead(tiny_config, dropout_prob=0.0, seed=0)
    rng = np.random.default_rng(0)
    sequence = rng.standard_normal((1, 4, 8)).astype("f")
    starts = np.array([[2, 0]], "int32")

    log_probs = np.asarray(
        head.end_log_probs(sequence, starts, np.zeros((1, 4), "f"))
    )

    assert log_probs.shape == (1, 2, 4)
    for row, start in enumerate(starts[0]):
        pairs = np.concatenate(
            [sequence[0], np.tile(sequence[0, start], (4, 1))], axis=1
        )
        hidden = head.end_layer_norm(
            np.tanh(np.asarray(head.end_dense_0(pairs)))
        )
        logits = np.asarray(head.end_dense_1(hidden))[:, 0]
        wanted = logits - np.log(np.exp(logits).sum())
        np.testing.assert_allclose(log_probs[0, row], wanted, rtol=1e-4)
