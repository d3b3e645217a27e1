import numpy as np
import pytest

from albert_tf.optimization import update_rules


def _array(*values):
    return np.array(values, dtype="float32")


def test_moments_move_a_tenth_and_a_thousandth_of_the_way():
    m, v = update_rules.update_moments(
        _array(2.0, -4.0),
        _array(1.0, 0.0),
        _array(3.0, 0.0),
        beta_1=0.9,
        beta_2=0.999,
    )

    np.testing.assert_allclose(m, [1.1, -0.4], rtol=1e-6)
    # 0.999 * 3 + 0.001 * 4 and 0.001 * 16.
    np.testing.assert_allclose(v, [3.001, 0.016], rtol=1e-6)


def test_epsilon_stands_outside_the_root():
    direction = update_rules.update_direction(
        _array(1.0), _array(0.0), _array(5.0), epsilon=1e-6, weight_decay=0.0
    )

    np.testing.assert_allclose(direction, [1e6], rtol=1e-6)


def test_decay_joins_the_direction():
    direction = update_rules.update_direction(
        _array(1.0, 0.0),
        _array(4.0, 0.0),
        _array(-8.0, 8.0),
        epsilon=1e-6,
        weight_decay=0.01,
    )

    # 1 / sqrt(4) - 0.08, and decay alone where the gradient was always 0.
    np.testing.assert_allclose(direction, [0.42, 0.08], rtol=1e-5)


def test_trust_ratio_is_norm_by_norm_and_has_no_cap():
    ratio = update_rules.trust_ratio(_array(300.0, 400.0), _array(0.6, 0.8))

    assert ratio.shape == ()
    np.testing.assert_allclose(ratio, 500.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("weight", "direction"),
    [
        (_array(0.0, 0.0), _array(3.0, 4.0)),
        (_array(3.0, 4.0), _array(0.0, 0.0)),
        (_array(0.0, 0.0), _array(0.0, 0.0)),
    ],
)
def test_trust_ratio_is_one_where_a_norm_is_zero(weight, direction):
    assert float(update_rules.trust_ratio(weight, direction)) == 1.0


@pytest.mark.parametrize("step", [1, 2, 1000, 125_000])
def test_corrected_moments_of_a_constant_gradient_are_its_own(step):
    # After t steps of gradient g, m = (1 - 0.9^t) g and v = (1 - 0.999^t) g^2.
    m, v = update_rules.correct_bias(
        np.float32((1 - 0.9**step) * 3),
        np.float32((1 - 0.999**step) * 9),
        np.float32(step),
        beta_1=0.9,
        beta_2=0.999,
    )

    np.testing.assert_allclose(m, 3.0, rtol=5e-7)
    np.testing.assert_allclose(v, 9.0, rtol=5e-7)
