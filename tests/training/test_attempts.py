"""What a restart changes and keeps; whole runs are in test_finetune."""

import json

import pytest

from albert_tf.training import attempts
from albert_tf.training.attempts import Attempts
from tests.training import runs


@pytest.mark.parametrize(
    ("num_warmup_steps", "start", "expected"),
    [
        (0, 0, [0, 10, 20, 30]),
        (8, 0, [8, 16, 32, 50]),
        (8, 30, [8, 16, 20, 20]),
        (60, 0, [60, 60, 60, 60]),
    ],
)
def test_each_attempt_has_another_seed_and_a_longer_warm_up(
    num_warmup_steps, start, expected
):
    config = runs.run_config(
        num_warmup_steps=num_warmup_steps,
        start_warmup_step=start,
        random_seed=7,
    )
    tried = [
        Attempts(problems=("no",) * number).config(config)
        for number in range(4)
    ]

    assert [one.num_warmup_steps for one in tried] == expected
    assert [one.random_seed for one in tried] == [
        7 + 1_000_003 * number for number in range(4)
    ]


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


def contents(folder):
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file()
    }


KEPT = {
    "attempt-1/best/model",
    "attempt-1/checkpoints/model",
    "attempt-1/events.out.tfevents.1",
    "attempt-1/metrics.jsonl",
    "attempt-1/run.json",
}


def test_a_failed_attempt_is_put_aside_and_makes_room(folder):
    assert attempts.read_attempts(str(folder)) == Attempts()

    attempts.fail_attempt(str(folder), Attempts(), "it stuck")

    failed = Attempts(problems=("it stuck",))
    assert attempts.read_attempts(str(folder)) == failed
    assert contents(folder) == {"attempts.json", "run.json"} | KEPT


def test_a_clearing_that_was_killed_is_finished(folder):
    (folder / "attempt-1").mkdir()
    (folder / "best").rename(folder / "attempt-1" / "best")
    values = {"problems": ["it stuck"], "is_cleared": False}
    (folder / "attempts.json").write_text(json.dumps(values))

    assert attempts.read_attempts(str(folder)) == Attempts(
        problems=("it stuck",)
    )
    assert contents(folder) == {"attempts.json", "run.json"} | KEPT
