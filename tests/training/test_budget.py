import dataclasses

import pytest

from albert_tf.training import budget
from albert_tf.training.pretrain_config import PretrainingConfig
from tests import tiny


@pytest.mark.parametrize(
    ("changes", "num_train_steps", "schedule"),
    [
        ({}, 1000, "1@0,3@600"),
        ({"num_hidden_layers": 12}, 10, "6@0,12@6"),
        ({"num_hidden_layers": 1}, 1000, None),
        ({"num_hidden_groups": 3}, 1000, None),
        ({"parameter_sharing": "attention"}, 1000, None),
        ({}, 1, None),
    ],
)
def test_the_recipe_fits_the_model_and_the_run(
    changes, num_train_steps, schedule
):
    config = tiny.config(**changes)

    found = budget.budget_settings(config, num_train_steps)

    assert found.get("depth_schedule") == schedule
    assert found["num_warmup_steps"] == num_train_steps // 5
    assert set(found) <= {f.name for f in dataclasses.fields(PretrainingConfig)}
    PretrainingConfig(
        albert_config=config,
        output_dir="run",
        input_file="records",
        max_seq_length=tiny.MAX_LENGTH,
        num_train_steps=num_train_steps,
        **found,
    )
