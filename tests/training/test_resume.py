"""What all runs share; whole runs are in test_pretrain and test_finetune."""

import dataclasses
import json
import os

import pytest
import tensorflow as tf

from albert_tf.devices.strategies import Workers
from albert_tf.training import loop, resume, step
from albert_tf.training.callbacks import CallbackList, Run
from albert_tf.training.resume import DivergenceDetector, RunState
from albert_tf.training.run_folder import RunFolder
from tests.training import runs


@pytest.fixture
def folder(tmp_path):
    return RunFolder(path=str(tmp_path / "run"), fingerprint={"seed": 1})


def start(config, folder, task):
    batches = {
        "inputs": tf.zeros((3, 4, 8)),
        "label_ids": tf.zeros((3, 4), tf.int32),
        "weights": tf.ones((3, 4)),
    }
    dataset = tf.data.Dataset.from_tensor_slices(batches)
    alone = Workers(tf.distribute.get_strategy())
    update = step.TrainStep(config, task, alone.strategy)
    with resume.prepare_training(
        config, folder=folder, train_step=update, workers=alone
    ) as training:
        return loop.TrainingLoop(
            config,
            training,
            observers=CallbackList(
                Run(config=config, title="A run", metric="", is_training=True),
                [],
                alone,
            ),
            batches_from=lambda phase, number: dataset.skip(
                number // phase.batch_size
            ),
        ).run()


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_deterministic_run_seeds_and_fixes_operations(
    deterministic, monkeypatch
):
    called = []
    monkeypatch.setattr(
        resume.keras.utils, "set_random_seed", lambda seed: called.append(seed)
    )
    monkeypatch.setattr(
        tf.config.experimental,
        "enable_op_determinism",
        lambda: called.append("determinism"),
    )

    resume.make_deterministic(
        runs.run_config(deterministic=deterministic, random_seed=7)
    )

    assert called == ([7, "determinism"] if deterministic else [])


@pytest.mark.parametrize("is_seen", [True, False])
def test_workers_compare_whether_they_see_the_folder_of_the_chief(
    is_seen, folder, monkeypatch
):
    found = []
    monkeypatch.setattr(resume, "_SECONDS_TO_SEE", 0.01)
    monkeypatch.setattr(
        Workers, "check_same", lambda _, *given: found.append(given)
    )
    if not is_seen:
        monkeypatch.setattr(RunFolder, "claim", lambda *_: None)
    config = runs.run_config(num_train_steps=1, output_dir=folder.path)

    start(config, folder, runs.OrderTask())

    shared = "--output_dir must be a folder that all workers share."
    assert ({"run.json": is_seen}, shared) in found


def test_two_processes_do_not_train_in_one_folder(folder):
    config = runs.run_config(num_train_steps=1, output_dir=folder.path)

    with (
        folder.locked(),
        pytest.raises(ValueError, match="Another process is training in"),
    ):
        start(config, folder, runs.OrderTask())


def test_a_longer_run_resumes_from_the_newest_checkpoint(folder, caplog):
    caplog.set_level("INFO")
    for num_train_steps in (2, 3):
        config = runs.run_config(
            num_train_steps=num_train_steps,
            output_dir=folder.path,
            keep_checkpoint_max=1,
        )
        assert start(config, folder, runs.OrderTask())

    assert "Resuming from" in caplog.text
    assert runs.arrays_of(folder.path, 3)["global_step"] == 3
    assert "run.lock" not in os.listdir(folder.path)
    assert os.listdir(os.path.join(folder.path, "checkpoints")) == [
        "step-00000003"
    ]


def test_a_claim_is_waited_for(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    monkeypatch.setattr(
        resume.time, "sleep", lambda _: path.write_text('{"seed": 1}')
    )

    assert resume._is_claimed(str(tmp_path))


def level_after(losses):
    level = DivergenceDetector()
    for loss in losses:
        assert level.problem(loss) is None
        level.update(loss)
    return level


H = resume.HORIZON


@pytest.mark.parametrize(
    ("losses", "smooth", "jump"),
    [
        pytest.param([2.0] * (H - 1), 1000.0, None, id="level_not_yet_known"),
        pytest.param([4.0] * H, 6.0, 6.01, id="half_of_the_level"),
        # The mean absolute deviation is 1, so 2 + 8 x 1 = 10 is the limit.
        pytest.param([1.0, 3.0] * (5 * H), 9.5, 10.5, id="noisy"),
        pytest.param([0.001] * (2 * H), 0.9, 1.1, id="hard_example"),
    ],
)
def test_a_jump_leaves_the_level_and_its_noise(losses, smooth, jump):
    level = level_after(losses)

    assert level.problem(smooth) is None
    if jump:
        assert level.problem(jump).startswith(
            f"the loss jumped to {jump:.4g} from a running level of "
        )
        assert level.problem(jump, detects_jumps=False) is None


@pytest.mark.parametrize(
    "losses",
    [
        pytest.param([8.3] * 10 + [4156.0] * (H - 10), id="at_once"),
        pytest.param(
            [8.3] * 10 + [8.3 + 0.05 * step for step in range(400)], id="slowly"
        ),
    ],
)
def test_a_level_above_the_first_loss_is_a_divergence(losses):
    level = DivergenceDetector()
    problems = []
    for loss in losses + losses[-1:]:
        problems.append(level.problem(loss))
        level.update(loss)

    assert "is far above the level of the first steps, 8.3" in problems[-1]
    assert not any(problems[:H])


def test_the_level_is_the_mean_of_the_first_steps_then_follows_slowly():
    level = level_after([1.0, 2.0, 3.0])
    assert level.mean == pytest.approx(2.0)
    assert level.num_steps == 3

    falling = level_after([10.0] * 50 + [5.0] * 200)

    assert falling.mean == pytest.approx(5.0, abs=5 * 0.98**199)


def test_the_state_of_a_run_survives_json():
    state = RunState(step=3, window={"loss": 0.1})
    state.examples_read["512"] = 20
    state.detector.update(0.3)

    text = json.dumps(dataclasses.asdict(state))

    assert RunState.from_dict(json.loads(text)) == state
