import pytest

from albert_tf.checkpoints import run_checkpoints

_STEP = "checkpoints/step-00000005"


def _make(run, *names):
    for name in names:
        (run / name).mkdir(parents=True)


def test_a_run_without_checkpoints(tmp_path):
    assert run_checkpoints.steps(str(tmp_path / "nowhere")) == []
    assert run_checkpoints.latest_checkpoint(str(tmp_path)) is None
    assert run_checkpoints.trained_weights(str(tmp_path)) is None
    assert run_checkpoints.step_of(None) == -1


def test_the_latest_is_that_of_the_highest_step(tmp_path):
    checkpoints = ("step-00000009", "step-100000000", "step-00000010")
    others = ("step-00000011.partial", "step-12", "other")
    _make(tmp_path / "checkpoints", *checkpoints, *others)

    latest = run_checkpoints.latest_checkpoint(str(tmp_path))

    assert latest == str(tmp_path / "checkpoints" / "step-100000000")
    assert run_checkpoints.step_of(latest) == 100_000_000
    assert run_checkpoints.steps(str(tmp_path)) == [9, 10, 100_000_000]


def test_the_best_weights_come_before_the_newest(tmp_path):
    _make(tmp_path, "checkpoints/step-00000005")
    newest = run_checkpoints.checkpoint_path(str(tmp_path), 5)
    assert run_checkpoints.trained_weights(str(tmp_path)) == newest

    _make(tmp_path, "best")

    best = str(tmp_path / "best")
    assert run_checkpoints.trained_weights(str(tmp_path)) == best


def test_weights_that_were_being_replaced_are_not_passed_over(tmp_path):
    moved = str(tmp_path / "best.0123abcd.replaced")
    _make(tmp_path, "checkpoints/step-00000005", moved)

    assert run_checkpoints.trained_weights(str(tmp_path)) == moved
    assert run_checkpoints.folders_of(moved) == [moved, str(tmp_path)]

    _make(tmp_path, "best")
    best = str(tmp_path / "best")
    assert run_checkpoints.trained_weights(str(tmp_path)) == best


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("run", ["run"]),
        ("run/best/model.ckpt", ["run/best", "run"]),
        (f"run/{_STEP}/model.ckpt", [f"run/{_STEP}", "run"]),
        ("run/checkpoints", ["run/checkpoints", "run"]),
        ("other/model.ckpt-7", ["other"]),
    ],
)
def test_the_folders_of_a_checkpoint_and_of_its_run(path, expected, tmp_path):
    _make(tmp_path, "run/best", "run/checkpoints/step-00000005", "other")

    found = run_checkpoints.folders_of(tmp_path / path)

    assert found == [str(tmp_path / folder) for folder in expected]
