import math

import pytest
import tensorflow as tf

from albert_tf.training import divergence


def level_after(losses):
    level = divergence.LossLevel()
    for loss in losses:
        assert level.problem(loss) is None
        level.update(loss)
    return level


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_is_a_problem_from_the_first_step(loss):
    assert divergence.LossLevel().problem(loss) == f"the loss is {loss}"


def test_no_jump_is_seen_before_the_level_is_known():
    level = level_after([2.0] * (divergence.HORIZON - 1))

    assert level.problem(1000.0) is None


def test_a_jump_is_named_with_the_level_it_left():
    level = level_after([4.0] * divergence.HORIZON)

    assert level.problem(6.0) is None
    assert level.problem(6.01) == (
        "the loss jumped to 6.01 from a running level of 4"
    )


def test_noise_as_large_as_before_is_no_jump():
    # The mean absolute deviation is 1, so 2 + 8 x 1 = 10 is the limit.
    level = level_after([1.0, 3.0] * (5 * divergence.HORIZON))

    assert level.problem(9.5) is None
    assert level.problem(10.5)


def test_a_hard_example_of_a_task_that_is_all_but_learnt_is_no_jump():
    level = level_after([0.001] * (2 * divergence.HORIZON))

    assert level.problem(0.9) is None
    assert level.problem(1.1)


def test_the_level_is_the_mean_of_the_first_steps_then_follows_slowly():
    level = level_after([1.0, 2.0, 3.0])
    assert level.mean == pytest.approx(2.0)
    assert level.num_steps == 3

    falling = level_after([10.0] * 50 + [5.0] * 200)

    assert falling.mean == pytest.approx(5.0, abs=5 * 0.98**199)


def test_a_jump_may_be_none_of_ours_but_nan_always_is():
    level = divergence.LossLevel()
    for _ in range(divergence.HORIZON):
        level.update(1.0)

    assert "jumped" in level.problem(9.0)
    assert level.problem(9.0, checks_jumps=False) is None
    assert level.problem(float("nan"), checks_jumps=False) == "the loss is nan"


def after(scale, num_steps, *, is_finite):
    state = tf.constant([scale, float(num_steps)])
    return divergence.updated(state, tf.constant(is_finite)).numpy().tolist()


def test_a_run_starts_with_a_scale_that_has_never_changed():
    assert divergence.initial() == [2.0**15, 0.0]


def test_an_overflow_halves_the_scale_and_starts_the_count_again():
    assert after(1024.0, 7, is_finite=False) == [512.0, 0.0]


def test_the_scale_never_falls_below_its_least():
    least = divergence.SMALLEST_SCALE

    assert after(least, 0, is_finite=False) == [least, 0.0]


def test_the_scale_doubles_after_enough_steps_without_overflow():
    almost = divergence.GROWTH_STEPS - 2

    assert after(1024.0, almost, is_finite=True) == [1024.0, almost + 1]
    assert after(1024.0, almost + 1, is_finite=True) == [2048.0, 0.0]


@pytest.mark.parametrize("scale", [2.0**23, 2.0**24])
def test_the_scale_never_grows_beyond_its_largest(scale):
    last = divergence.GROWTH_STEPS - 1

    assert after(scale, last, is_finite=True) == [2.0**24, 0.0]
