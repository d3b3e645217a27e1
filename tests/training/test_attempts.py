"""What a restart changes, and what it leaves behind."""

import json

import pytest

from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.training import attempts
from albert_tf.training.attempts import Attempts


def warmups(num_warmup_steps, start=0):
    config = OptimizerConfig(
        num_train_steps=100,
        num_warmup_steps=num_warmup_steps,
        start_warmup_step=start,
    )
    tried = [Attempts(problems=("no",) * number) for number in range(4)]
    return [one.optimizer(config).num_warmup_steps for one in tried]


def test_each_attempt_warms_up_longer_until_the_middle_of_the_run():
    assert warmups(0) == [0, 10, 20, 30]
    assert warmups(8) == [8, 16, 32, 50]
    assert warmups(8, start=30) == [8, 16, 20, 20]
    assert warmups(60) == [60, 60, 60, 60]


def test_the_first_attempt_has_the_seed_of_the_run_and_others_far_ones():
    seeds = [Attempts(problems=("no",) * n).seed(7) for n in range(3)]

    assert seeds == [7, 1_000_010, 2_000_013]


@pytest.fixture
def folder(tmp_path):
    """What a failed attempt leaves."""
    for name in ("checkpoints", "best"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model").write_text("weights")
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    (tmp_path / "events.out.tfevents.1").write_text("")
    (tmp_path / "run.json").write_text("{}")
    return tmp_path


def test_a_failure_makes_room_and_keeps_the_log(folder):
    assert attempts.read(str(folder)) == Attempts()

    failed = attempts.fail(str(folder), Attempts(), "it stuck")

    assert failed == Attempts(problems=("it stuck",))
    assert attempts.read(str(folder)) == failed
    assert {path.name for path in folder.iterdir()} == {
        "attempts.json",
        "attempt-0.jsonl",
        "run.json",
    }


def test_a_clearing_that_was_killed_is_finished(folder):
    values = {"problems": ["it stuck"], "is_cleared": False}
    (folder / "attempts.json").write_text(json.dumps(values))

    assert attempts.read(str(folder)) == Attempts(problems=("it stuck",))
    assert not (folder / "checkpoints").exists()
    assert (folder / "attempt-0.jsonl").exists()
