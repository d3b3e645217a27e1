import pytest
import tensorflow as tf

from albert_tf.training import loss_scaling


def after(scale, num_steps, *, is_finite):
    state = tf.constant([scale, float(num_steps)])
    return loss_scaling.updated(state, tf.constant(is_finite)).numpy().tolist()


def test_a_run_starts_with_a_scale_that_has_never_changed():
    assert loss_scaling.initial() == [2.0**15, 0.0]


def test_an_overflow_halves_the_scale_and_starts_the_count_again():
    assert after(1024.0, 7, is_finite=False) == [512.0, 0.0]


def test_the_scale_never_falls_below_its_least():
    least = loss_scaling.SMALLEST_SCALE

    assert after(least, 0, is_finite=False) == [least, 0.0]


def test_the_scale_doubles_after_enough_steps_without_overflow():
    almost = loss_scaling.GROWTH_STEPS - 2

    assert after(1024.0, almost, is_finite=True) == [1024.0, almost + 1]
    assert after(1024.0, almost + 1, is_finite=True) == [2048.0, 0.0]


@pytest.mark.parametrize("scale", [2.0**23, 2.0**24])
def test_the_scale_never_grows_beyond_its_largest(scale):
    last = loss_scaling.GROWTH_STEPS - 1

    assert after(scale, last, is_finite=True) == [2.0**24, 0.0]
