import pytest

from albert_tf.optimization.optimizer_config import OptimizerConfig


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"optimizer": "sgd"}, "`optimizer` must be one of lamb, adamw.*'sgd'"),
        ({"learning_rate": 0.0}, "`learning_rate` must be .* above 0"),
        ({"learning_rate": float("nan")}, "finite number above 0.*nan"),
        ({"clip_norm": 0.0}, "`clip_norm` must be .* above 0"),
        ({"epsilon": -1e-6}, "`epsilon` must be .* above 0"),
        ({"weight_decay": -0.1}, "`weight_decay` must be .* at least 0"),
        ({"adamw_rate_ratio": 0.1}, "needs --optimizer=muon.*=lamb"),
        ({"poly_power": -1.0}, "`poly_power` must be .* at least 0"),
        ({"beta_1": 1.0}, "`beta_1` must be .* above 0 and below 1"),
        ({"num_train_steps": 0}, "`num_train_steps` must be .* at least 1"),
    ],
)
def test_invalid_settings_are_named(values, message):
    with pytest.raises(ValueError, match=message):
        OptimizerConfig(**values)
