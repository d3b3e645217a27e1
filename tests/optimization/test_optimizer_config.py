import pytest

from albert_tf.optimization.optimizer_config import OptimizerConfig


def test_the_defaults_are_those_of_the_paper():
    config = OptimizerConfig()

    assert config.optimizer == "lamb"
    assert config.learning_rate == 0.00176
    assert (config.num_train_steps, config.num_warmup_steps) == (125000, 3125)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"optimizer": "sgd"}, "`optimizer` must be one of lamb, adamw.*'sgd'"),
        (
            {"learning_rate": 0.0},
            r"`learning_rate` must be .* above 0\. Received: learning_rate=0.0",
        ),
        ({"learning_rate": float("nan")}, "finite number above 0.*nan"),
        ({"learning_rate": "fast"}, "finite number above 0.*'fast'"),
        ({"clip_norm": 0.0}, "`clip_norm` must be .* above 0"),
        ({"clip_norm": float("inf")}, "`clip_norm` must be a finite number"),
        ({"epsilon": -1e-6}, "`epsilon` must be .* above 0"),
        ({"weight_decay": -0.1}, "`weight_decay` must be .* at least 0"),
        ({"poly_power": -1.0}, "`poly_power` must be .* at least 0"),
        ({"beta_1": 1.0}, "`beta_1` must be .* above 0 and below 1"),
        ({"beta_2": 0.0}, "`beta_2` must be .* above 0 and below 1"),
        ({"num_train_steps": 0}, "`num_train_steps` must be .* at least 1"),
        ({"num_warmup_steps": -1}, "`num_warmup_steps` must be .* at least 0"),
        ({"start_warmup_step": 1.5}, "`start_warmup_step` must be a whole"),
        (
            {"num_train_steps": 100, "num_warmup_steps": 101},
            "`num_warmup_steps`.*must not exceed `num_train_steps`.*"
            "num_warmup_steps=101.*num_train_steps=100",
        ),
        (
            {
                "num_train_steps": 100,
                "num_warmup_steps": 60,
                "start_warmup_step": 50,
            },
            "during its warm-up.*start_warmup_step=50",
        ),
    ],
)
def test_invalid_settings_are_named(values, message):
    with pytest.raises(ValueError, match=message):
        OptimizerConfig(**values)


def test_a_run_may_consist_of_warm_up_alone():
    config = OptimizerConfig(num_train_steps=100, num_warmup_steps=100)

    assert config.num_warmup_steps == config.num_train_steps
