"""What a restart changes and keeps; whole runs are in test_finetune."""

import dataclasses
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


def test_a_failure_makes_room_and_keeps_the_log(folder):
    assert attempts.read_attempts(str(folder)) == Attempts()

    attempts.fail_attempt(str(folder), Attempts(), "it stuck")

    failed = Attempts(problems=("it stuck",))
    assert attempts.read_attempts(str(folder)) == failed
    assert {path.name for path in folder.iterdir()} == {
        "attempts.json",
        "attempt-0.jsonl",
        "run.json",
    }


def test_a_clearing_that_was_killed_is_finished(folder):
    values = {"problems": ["it stuck"], "is_cleared": False}
    (folder / "attempts.json").write_text(json.dumps(values))

    assert attempts.read_attempts(str(folder)) == Attempts(
        problems=("it stuck",)
    )
    assert not (folder / "checkpoints").exists()
    assert (folder / "attempt-0.jsonl").exists()


def test_a_run_that_may_restart_is_judged_if_there_is_something_to_learn(
    job, monkeypatch
):
    judged = []

    def train(config, *, on_checkpoint, **_):
        judged.append(on_checkpoint is not None)
        return False  # as if a signal had stopped it

    monkeypatch.setattr(attempts.train, "train", train)
    several = runs.example_set(20)
    one_label = [x for x in several.examples if x.label]

    for changes in (
        {"train": several},
        {"train": several, "on_collapse": "ignore"},
        {"train": dataclasses.replace(several, examples=one_label)},
    ):
        assert job(**changes).run() is None
    assert judged == [True, False, False]
