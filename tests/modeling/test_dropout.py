import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling import dropout

_ONES = np.ones((50, 40), "float32")


def _drop(seed, site=0, rate=0.25):
    return np.asarray(dropout.dropout(_ONES, rate=rate, seed=seed, site=site))


def test_keeps_everything_without_a_seed_or_a_rate():
    np.testing.assert_array_equal(_drop(None), _ONES)
    np.testing.assert_array_equal(_drop([1, 2], rate=0.0), _ONES)


def test_drops_the_share_asked_for_and_scales_the_rest():
    values = _drop([1, 2])

    assert set(np.unique(values)) == {0.0, np.float32(1 / 0.75)}
    # 2000 draws: a deviation of 0.01.
    np.testing.assert_allclose((values == 0).mean(), 0.25, atol=0.04)


def test_same_seed_and_site_give_the_same_mask():
    np.testing.assert_array_equal(_drop([1, 2]), _drop([1, 2]))


@pytest.mark.parametrize(
    ("seed", "site"), [([1, 3], 0), ([2, 2], 0), ([1, 2], 1)]
)
def test_another_seed_or_site_gives_another_mask(seed, site):
    agreement = (_drop([1, 2]) == _drop(seed, site)).mean()

    # Independent masks agree at 0.75^2 + 0.25^2 of the places.
    np.testing.assert_allclose(agreement, 0.625, atol=0.05)


def test_no_two_steps_and_sites_meet_in_one_seed():
    seeds = {
        tuple(np.asarray(dropout.fold_in(np.array([7, step]), site)))
        for step in range(40)
        for site in range(40)
    }

    assert len(seeds) == 1600


def test_sites_of_successive_blocks_do_not_overlap():
    assert dropout.block_site(0) > max(
        dropout.HEAD_SITE, dropout.EMBEDDINGS_SITE
    )
    assert dropout.block_site(1) - dropout.block_site(0) == 3


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_seed_may_be_a_tensor_in_a_graph(jit_compile):
    @tf.function(jit_compile=jit_compile)
    def drop(inputs, seed):
        return dropout.dropout(inputs, rate=0.5, seed=seed, site=3)

    first = drop(tf.constant(_ONES), tf.constant([1, 2]))
    again = drop(tf.constant(_ONES), tf.constant([1, 2]))
    other = drop(tf.constant(_ONES), tf.constant([1, 3]))

    np.testing.assert_array_equal(first, again)
    assert (np.asarray(first) != np.asarray(other)).any()
    np.testing.assert_allclose((np.asarray(first) == 0).mean(), 0.5, atol=0.06)


def test_the_rate_is_exact_in_bfloat16():
    # A uniform bfloat16 in [0, 1) is a multiple of 1/128, so that drawing in
    # it would drop 0.1016 of the values.
    ones = tf.ones((1000, 1000), "bfloat16")

    values = dropout.dropout(ones, rate=0.1, seed=[1, 2], site=0)

    assert values.dtype == "bfloat16"
    dropped = np.mean(np.asarray(values, "float32") == 0)
    np.testing.assert_allclose(dropped, 0.1, atol=0.001)
