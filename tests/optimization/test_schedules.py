import keras
import numpy as np
import pytest

from albert_tf.optimization import schedules
from albert_tf.optimization.optimizer_config import OptimizerConfig

_CASES = ("power1", "power2", "no_warmup", "late_warmup")


def _config(params):
    rate, total, warmup, power, first = params
    return OptimizerConfig(
        learning_rate=float(rate),
        num_train_steps=int(total),
        num_warmup_steps=int(warmup),
        poly_power=float(power),
        start_warmup_step=int(first),
    )


@pytest.mark.parametrize("case", _CASES)
def test_rates_are_the_recorded_ones_but_never_negative(recorded, case):
    arrays = recorded("learning_rate")
    wanted = np.maximum(arrays[f"lr/{case}"], 0)
    config = _config(arrays[f"params/{case}"])

    rates = schedules.learning_rate(arrays["steps"], config)

    np.testing.assert_allclose(rates, wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("step", "numerator", "denominator"),
    [
        (1, 1, 3125),
        (3124, 3124, 3125),
        (3125, 121_875, 125_000),
        (124_998, 2, 125_000),
        (124_999, 1, 125_000),
    ],
)
def test_the_last_steps_are_as_precise_as_the_first(
    step, numerator, denominator
):
    rate = float(schedules.learning_rate(step, OptimizerConfig()))

    np.testing.assert_allclose(
        rate, 0.00176 * numerator / denominator, rtol=3e-7
    )


def test_the_keras_schedule_comes_back_from_its_config():
    schedule = schedules.WarmUpAndDecay(
        OptimizerConfig(num_train_steps=9, num_warmup_steps=2, poly_power=2.0)
    )
    described = keras.optimizers.schedules.serialize(schedule)

    again = keras.optimizers.schedules.deserialize(described)

    assert again.config == schedule.config
    assert float(again(5)) == float(schedule(5)) > 0
