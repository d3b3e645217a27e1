"""What is common to all runs; whole runs are in the tests of the tasks."""

import pytest

from albert_tf.training import run_folder
from albert_tf.training import trainer as trainer_lib
from albert_tf.training.run_config import TrainingConfig


def test_two_processes_do_not_train_in_one_folder(
    trainer, order_task, settings, tiny_config, tmp_path
):
    made = trainer(settings(), task=order_task())
    plan = trainer_lib.RunPlan(
        config=tiny_config(),
        training=TrainingConfig(num_train_steps=1),
        optimizer=settings(),
        output_dir=str(tmp_path / "run"),
        identity={"seed": 1},
    )
    one = trainer_lib.Trainer(plan, task=made.task, strategy=made.strategy)

    with (
        run_folder.locked(plan.output_dir),
        pytest.raises(ValueError, match="Another process is training in"),
    ):
        one.train(None, num_records=1)
