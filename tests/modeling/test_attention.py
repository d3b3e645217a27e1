import numpy as np
import pytest

from albert_tf.modeling import attention
from tests import tiny

_EVERYTHING = np.ones((1, 1, 1, 3), "int32")


def _softmax(scores):
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


@pytest.fixture
def query_and_key():
    rng = np.random.default_rng(0)
    return rng.standard_normal((2, 1, 3, 2, 4)).astype("float32")


def test_heads_take_neighbouring_slices():
    inputs = np.arange(12, dtype="float32").reshape(1, 2, 6)

    heads = np.asarray(attention.split_heads(inputs, 3))

    assert heads.shape == (1, 2, 3, 2)
    np.testing.assert_array_equal(heads[0, 1, 2], [10, 11])


def test_probabilities_are_a_softmax_over_the_keys(query_and_key):
    query, key = query_and_key

    result = np.asarray(
        attention.attention_probabilities(query, key, _EVERYTHING)
    )

    head = 1
    scores = query[0, :, head] @ key[0, :, head].T / np.sqrt(4)
    np.testing.assert_allclose(result[0, head], _softmax(scores), rtol=1e-5)


def test_padding_gets_no_attention(query_and_key):
    query, key = query_and_key
    mask = np.array([1, 1, 0]).reshape(1, 1, 1, 3)

    result = np.asarray(attention.attention_probabilities(query, key, mask))

    np.testing.assert_array_equal(result[..., 2], np.zeros((1, 2, 3)))
    np.testing.assert_allclose(
        result.sum(axis=-1), np.ones((1, 2, 3)), rtol=1e-6
    )


def test_a_mask_may_differ_from_query_to_query(query_and_key):
    query, key = query_and_key
    mask = np.eye(3, dtype="int32")[None, None]

    result = np.asarray(attention.attention_probabilities(query, key, mask))

    np.testing.assert_allclose(result[0, 0], np.eye(3), atol=1e-7)


def test_a_row_of_padding_alone_attends_by_its_scores(query_and_key):
    query, key = query_and_key

    masked = attention.attention_probabilities(query, key, 0 * _EVERYTHING)
    free = attention.attention_probabilities(query, key, _EVERYTHING)

    np.testing.assert_allclose(masked, free, atol=1e-3)


def test_values_are_averaged_and_heads_joined():
    probabilities = np.array(
        [[[[0.25, 0.75]] * 2, [[1.0, 0.0]] * 2]], "float32"
    )
    value = np.arange(8, dtype="float32").reshape(1, 2, 2, 2)

    result = np.asarray(attention.attended_values(probabilities, value))

    # Head 0: 0.25 x [0, 1] + 0.75 x [4, 5]; head 1: the first value.
    np.testing.assert_allclose(result[0], [[3, 4, 2, 3]] * 2)


@pytest.mark.parametrize(
    "rate", ["attention_probs_dropout_prob", "hidden_dropout_prob"]
)
def test_both_places_drop_values(rate):
    config = tiny.config(**{rate: 0.5})
    layer = attention.AttentionSublayer(config, seed=0)
    layer.build()
    hidden = np.random.default_rng(0).standard_normal((1, 3, 8)).astype("f")

    def run(seed=None, site=0):
        return np.asarray(layer(hidden, _EVERYTHING, seed=seed, site=site))

    assert (run([1, 2]) != run()).any()
    assert (run([1, 2]) != run([1, 2], site=9)).any()
    np.testing.assert_array_equal(run([1, 2]), run([1, 2]))
