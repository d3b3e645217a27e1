from albert_tf.checkpoints import run_checkpoints


def _make(run, *names):
    for name in names:
        (run / name).mkdir(parents=True)


def test_a_run_without_checkpoints(tmp_path):
    assert run_checkpoints.steps(str(tmp_path / "nowhere")) == []
    assert run_checkpoints.latest_checkpoint(str(tmp_path)) is None
    assert run_checkpoints.trained_weights(str(tmp_path)) is None


def test_the_latest_is_that_of_the_highest_step(tmp_path):
    checkpoints = ("step-00000009", "step-100000000", "step-00000010")
    others = ("step-00000011.partial", "step-12", "other")
    _make(tmp_path / "checkpoints", *checkpoints, *others)

    latest = run_checkpoints.latest_checkpoint(str(tmp_path))

    assert latest == str(tmp_path / "checkpoints" / "step-100000000")
    assert run_checkpoints.steps(str(tmp_path)) == [9, 10, 100_000_000]


def test_weights_that_were_being_replaced_are_not_passed_over(tmp_path):
    moved = str(tmp_path / "best.0123abcd.replaced")
    _make(tmp_path, "checkpoints/step-00000005", moved)

    assert run_checkpoints.trained_weights(str(tmp_path)) == moved
    assert run_checkpoints.folders_of(moved) == [moved, str(tmp_path)]

    _make(tmp_path, "best")
    best = str(tmp_path / "best")
    assert run_checkpoints.trained_weights(str(tmp_path)) == best
