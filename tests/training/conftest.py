"""Jobs, devices and signals; what they are made of is in `runs`."""

import functools
import os
import signal

import pytest
from tensorflow.python.framework import config as tf_config

from albert_tf.observers.metric_log import MetricLog
from albert_tf.training.pretrain_config import PretrainingConfig
from tests.training import runs


@pytest.fixture
def stop_at(monkeypatch):
    """A function that has a run stopped, once, after its log reached a step."""

    def patch(step_to_stop_at):
        on_log = MetricLog.on_log

        def write_and_stop(log, step, numbers):
            on_log(log, step, numbers)
            if step == step_to_stop_at:
                monkeypatch.setattr(MetricLog, "on_log", on_log)
                os.kill(os.getpid(), signal.SIGTERM)

        monkeypatch.setattr(MetricLog, "on_log", write_and_stop)

    return patch


@pytest.fixture
def deterministic():
    """Operations that give the same bits each time."""
    tf_config.enable_op_determinism()
    yield
    tf_config.disable_op_determinism()


@pytest.fixture(scope="module")
def make_pretraining_job(tmp_path_factory):
    """A function that makes the settings of a pretraining in a directory.

    It trains on 20 records and evaluates on 10.
    """
    folder = tmp_path_factory.mktemp("records")
    records = [
        runs.build_records(folder, num_documents=number, seed=seed)
        for number, seed in ((10, 0), (5, 1))
    ]

    def make(output_dir, **changes):
        values = {
            "albert_config": runs.config(),
            "output_dir": str(output_dir),
            "learning_rate": 0.01,
            "num_train_steps": runs.NUM_PRETRAINING_STEPS,
            "num_warmup_steps": 0,
            "poly_power": 0.0,
            "train_batch_size": 8,
            "eval_batch_size": 4,
            "save_checkpoints_steps": 3,
            "log_steps": 2,
            "strategy": "one",
            "input_file": records[0],
            "eval_file": records[1],
            "do_eval": True,
            "max_seq_length": runs.S,
            "flags_text": "--do_train\n",
        }
        return PretrainingConfig(**values | changes)

    return make


@pytest.fixture
def job(tmp_path):
    """A function that makes a fine-tuning job; see `runs.make_job`."""
    return functools.partial(runs.make_job, tmp_path)
