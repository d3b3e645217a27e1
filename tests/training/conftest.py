"""Jobs, devices and signals; what they are made of is in `runs`."""

import os
import signal

import pytest
from tensorflow.python.framework import config as tf_config

from albert_tf.tasks.task import Sets
from albert_tf.training import distribution, metric_log
from albert_tf.training.run_config import FinetuningConfig
from tests.training import runs


@pytest.fixture
def terminate_at(monkeypatch):
    """A function after which this process gets a SIGTERM, once, at a step."""

    def patch(step_to_stop_at):
        write = metric_log.MetricLog.write

        def write_and_stop(log, step, values):
            write(log, step, values)
            if step == step_to_stop_at:
                monkeypatch.setattr(metric_log.MetricLog, "write", write)
                os.kill(os.getpid(), signal.SIGTERM)

        monkeypatch.setattr(metric_log.MetricLog, "write", write_and_stop)

    return patch


@pytest.fixture(scope="session")
def two_replicas():
    """A strategy over two virtual devices."""
    return distribution.create_strategy(runs.run_config(strategy="mirrored"))


@pytest.fixture
def deterministic():
    """Operations that give the same bits each time."""
    tf_config.enable_op_determinism()
    yield
    tf_config.disable_op_determinism()


@pytest.fixture
def job(tmp_path):
    """A function that makes a fine-tuning job; changes as in `Job.replace`."""

    def make(output="run", **changes):
        num_steps = changes.get("num_train_steps", 60)
        config = FinetuningConfig(
            albert_config=runs.config(),
            output_dir=str(tmp_path / output),
            optimizer="adamw",
            learning_rate=0.01,
            poly_power=0.0,
            num_train_steps=num_steps,
            num_warmup_steps=min(5, num_steps // 2),
            train_batch_size=8,
            eval_batch_size=4,
            predict_batch_size=4,
            save_checkpoints_steps=20,
            log_steps=10,
            strategy="one",
            max_seq_length=runs.S,
            do_train=True,
            flags_text="--do_train\n",
        )
        sets = Sets(
            train=runs.example_set(40, seed=1),
            evaluation=(runs.example_set(30, seed=2),),
        )
        return runs.Job(config, sets, runs.WordTask).replace(**changes)

    return make
