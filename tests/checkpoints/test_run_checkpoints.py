import os

from albert_tf.checkpoints import run_checkpoints


def make_steps(folder, *steps):
    for step in steps:
        path = run_checkpoints.checkpoint_path(str(folder), step)
        os.makedirs(path)


def test_a_run_without_checkpoints(tmp_path):
    assert run_checkpoints.steps(str(tmp_path / "nowhere")) == []
    assert run_checkpoints.latest_checkpoint(str(tmp_path)) is None
    assert run_checkpoints.trained_weights(str(tmp_path)) is None
    assert run_checkpoints.step_of(None) == -1


def test_the_latest_is_that_of_the_highest_step(tmp_path):
    make_steps(tmp_path, 9, 100_000_000, 10)
    for name in ("step-00000011.partial", "step-12", "other"):
        (tmp_path / "checkpoints" / name).mkdir()

    latest = run_checkpoints.latest_checkpoint(str(tmp_path))

    assert latest == str(tmp_path / "checkpoints" / "step-100000000")
    assert run_checkpoints.step_of(latest) == 100_000_000
    assert run_checkpoints.steps(str(tmp_path)) == [9, 10, 100_000_000]


def test_the_best_weights_come_before_the_newest(tmp_path):
    make_steps(tmp_path, 5)
    newest = run_checkpoints.checkpoint_path(str(tmp_path), 5)
    assert run_checkpoints.trained_weights(str(tmp_path)) == newest

    best = tmp_path / "best"
    best.mkdir()

    assert run_checkpoints.trained_weights(str(tmp_path)) == str(best)
