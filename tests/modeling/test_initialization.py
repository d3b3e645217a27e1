import keras
import numpy as np

from albert_tf.modeling import initialization
from albert_tf.modeling.attention import AttentionSublayer


def test_seeds_differ_by_name_and_by_parent():
    seeds = {
        initialization.derive_seed(seed, name)
        for seed in (0, 1, 2)
        for name in ("query", "key", "value")
    }

    assert len(seeds) == 9


def test_values_are_cut_at_two_deviations_and_not_rescaled():
    initializer = initialization.truncated_normal(0.5, seed=3, name="kernel")

    values = np.asarray(initializer((200, 500)))

    # A normal distribution cut at 2 sigma has 0.8796 of its deviation.
    assert np.abs(values).max() <= 1.0
    np.testing.assert_allclose(values.std(), 0.5 * 0.8796, rtol=0.01)
    np.testing.assert_allclose(values.mean(), 0.0, atol=0.01)


def test_values_do_not_depend_on_global_state():
    keras.utils.set_random_seed(1)
    first = initialization.truncated_normal(1.0, seed=3, name="a")((4, 5))
    keras.utils.set_random_seed(2)
    second = initialization.truncated_normal(1.0, seed=3, name="a")((4, 5))

    np.testing.assert_array_equal(first, second)


def test_dense_has_a_seeded_kernel_and_no_bias_at_first(tiny_config):
    parent = AttentionSublayer(tiny_config, seed=5, dtype="mixed_bfloat16")
    layers = [
        initialization.dense(parent, name, 300)
        for name in ("query", "query", "key")
    ]
    for layer in layers:
        layer.build((None, 20))

    first, again, other = (np.asarray(layer.kernel) for layer in layers)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    # The deviation of the config, 0.5, cut as above.
    np.testing.assert_allclose(first.std(), 0.5 * 0.8796, rtol=0.03)
    np.testing.assert_array_equal(layers[0].bias, np.zeros(300))
    assert layers[0].compute_dtype == "bfloat16"
