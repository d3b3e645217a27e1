import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling import dropout
from albert_tf.modeling.albert_model import AlbertModel
from tests import tiny

_ONES = np.ones((50, 40), "float32")


def _drop(seed, dropout_index=0, rate=0.25):
    return np.asarray(
        dropout.dropout(
            _ONES, rate=rate, seed=seed, dropout_index=dropout_index
        )
    )


def test_keeps_everything_without_a_seed_or_a_rate():
    np.testing.assert_array_equal(_drop(None), _ONES)
    np.testing.assert_array_equal(_drop([1, 2], rate=0.0), _ONES)


def test_drops_the_share_asked_for_and_scales_the_rest():
    values = _drop([1, 2])

    assert set(np.unique(values)) == {0.0, np.float32(1 / 0.75)}
    # 2000 draws: a deviation of 0.01.
    np.testing.assert_allclose((values == 0).mean(), 0.25, atol=0.04)


@pytest.mark.parametrize(
    ("seed", "dropout_index"), [([1, 3], 0), ([2, 2], 0), ([1, 2], 1)]
)
def test_seed_and_index_decide_the_mask(seed, dropout_index):
    agreement = (_drop([1, 2]) == _drop(seed, dropout_index)).mean()

    np.testing.assert_array_equal(_drop([1, 2]), _drop([1, 2]))
    # Independent masks agree at 0.75^2 + 0.25^2 of the places.
    np.testing.assert_allclose(agreement, 0.625, atol=0.05)


def test_no_two_steps_and_indices_meet_in_one_seed():
    seeds = {
        tuple(np.asarray(dropout.fold_in(np.array([7, step]), dropout_index)))
        for step in range(40)
        for dropout_index in range(40)
    }

    assert len(seeds) == 1600


def test_the_rate_is_exact_in_bfloat16():
    # A uniform bfloat16 in [0, 1) is a multiple of 1/128, so that drawing in
    # it would drop 0.1016 of the values.
    ones = tf.ones((1000, 1000), "bfloat16")

    values = dropout.dropout(ones, rate=0.1, seed=[1, 2], dropout_index=0)

    assert values.dtype == "bfloat16"
    dropped = np.mean(np.asarray(values, "float32") == 0)
    np.testing.assert_allclose(dropped, 0.1, atol=0.001)


def test_no_two_dropouts_of_a_model_share_a_mask(monkeypatch):
    rates = {}

    def note(inputs, rate, seed, dropout_index):
        assert dropout_index not in rates
        rates[dropout_index] = rate
        return inputs

    monkeypatch.setattr(dropout, "dropout", note)
    config = tiny.config(
        hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.2
    )

    AlbertModel(config)(tiny.batch(), training=True)

    assert [*rates.values()] == [0.1, *[0.2, 0.1, 0.1] * 3]
