"""What data of one's own are trained with unless flags say otherwise."""

import pytest

from albert_tf.tasks import small_data_defaults


@pytest.mark.parametrize(
    ("num_rows", "num_steps"),
    [(10, 500), (200, 500), (1000, 625), (5000, 1000), (32_000, 3000)],
)
def test_small_tables_are_read_more_often(num_rows, num_steps):
    found = small_data_defaults.run_settings(
        num_rows, train_batch_size=32, hidden_size=768
    )

    assert found == {
        "learning_rate": 5e-5,  # The original's, at the width of base.
        "num_train_steps": num_steps,
        "warmup_proportion": 0.1,
    }
