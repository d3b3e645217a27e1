import keras
import numpy as np
import pytest

from albert_tf.optimization import (
    clipping,
    factory,
    optimizers,
    schedules,
)
from albert_tf.optimization.optimizer_config import OptimizerConfig


@pytest.mark.parametrize(
    ("name", "optimizer_class"),
    [("adamw", optimizers.AlbertAdamW), ("lamb", optimizers.AlbertLamb)],
)
def test_the_name_chooses_the_optimizer(name, optimizer_class):
    optimizer = factory.create_optimizer(OptimizerConfig(name=name))

    assert type(optimizer) is optimizer_class


def test_every_setting_reaches_the_optimizer():
    optimizer = factory.create_optimizer(
        OptimizerConfig(
            weight_decay=0.1,
            beta_1=0.8,
            beta_2=0.95,
            epsilon=1e-4,
            clip_norm=0.5,
            corrected_lamb=True,
            num_train_steps=7,
            num_warmup_steps=3,
        )
    )

    described = optimizer.get_config()
    assert described["weight_decay"] == 0.1
    assert described["beta_1"] == 0.8
    assert described["beta_2"] == 0.95
    assert described["epsilon"] == 1e-4
    assert described["global_clipnorm"] == 0.5
    assert described["corrected"] is True
    assert described["learning_rate"]["config"]["num_train_steps"] == 7


@pytest.mark.parametrize("name", ["adamw", "lamb"])
def test_keras_fit_steps_as_a_loop_of_our_own(name, make_variable, check_close):
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(16, 5)).astype("float32")
    targets = 9 * rng.normal(size=(16, 3)).astype("float32")
    config = OptimizerConfig(
        name=name, learning_rate=0.1, num_train_steps=8, num_warmup_steps=2
    )
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
    weights = [make_variable(w.name, w.numpy()) for w in model.weights]
    model.compile(optimizer=factory.create_optimizer(config), loss="mse")
    optimizer = factory.create_optimizer(config)
    optimizer.build(weights)

    model.fit(inputs, targets, batch_size=16, epochs=6, verbose=0)
    for step in range(6):
        kernel, bias = (keras.ops.convert_to_numpy(w) for w in weights)
        # The loss is the mean of 16 x 3 squares.
        error = 2 * (inputs @ kernel + bias - targets) / targets.size
        gradients, norm = clipping.clip_by_global_norm(
            [inputs.T @ error, error.sum(axis=0)], config.clip_norm
        )
        assert norm > config.clip_norm
        rate = schedules.learning_rate(step, config)
        for gradient, weight in zip(gradients, weights, strict=True):
            optimizer.update_step(gradient, weight, rate)

    assert int(model.optimizer.iterations) == 6
    for got, wanted in zip(model.get_weights(), weights, strict=True):
        wanted = keras.ops.convert_to_numpy(wanted)
        check_close(got, wanted, 1e-5, name)
