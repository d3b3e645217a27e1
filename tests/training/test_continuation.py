"""Runs that go on from another run."""

import dataclasses
import os
import re

import numpy as np
import pytest

from albert_tf import files
from albert_tf.checkpoints import run_checkpoints
from albert_tf.training import pretrain
from tests.training import runs

HALF = runs.NUM_PRETRAINING_STEPS // 2
# LAMB at full depth: test_loop.py.
OPTIONS = {"optimizer": "muon", "random_depth": True}


def run(config):
    """Runs a pretraining; returns its scores by name."""
    result = pretrain.run(config)
    return result and result.scores.flat()


@pytest.fixture
def job(make_pretraining_job, tmp_path):
    """A function that makes the settings of a run in a new directory."""
    return lambda name, **changes: make_pretraining_job(
        tmp_path / name, **OPTIONS | changes
    )


@pytest.fixture(scope="module")
def half(make_pretraining_job, tmp_path_factory):
    """The job of a run that is finished after half of the steps."""
    done = make_pretraining_job(
        tmp_path_factory.mktemp("half") / "run", num_train_steps=HALF, **OPTIONS
    )
    run(done)
    return done


@pytest.fixture(scope="module")
def continued(make_pretraining_job, tmp_path_factory, half):
    """The job and the scores of a run that went on, with one setting."""
    second = make_pretraining_job(
        tmp_path_factory.mktemp("continued") / "run",
        continue_from=half.output_dir,
        **OPTIONS,
    )
    return second, run(second)


def test_with_the_same_settings_it_is_one_run(continued, job):
    whole, (second, _) = job("whole"), continued
    run(whole)

    one, other = (
        runs.arrays_of(x.output_dir, runs.NUM_PRETRAINING_STEPS)
        for x in (second, whole)
    )
    assert set(one) == set(other)
    for name, array in one.items():
        np.testing.assert_allclose(array, other[name], atol=1e-6, err_msg=name)
    lines = runs.lines_of(second.output_dir)
    assert [line["step"] for line in lines] == [3, 4, 6, 6]


def test_a_run_that_went_on_resumes_without_the_first_one(
    continued, half, job, stop_at
):
    _, scores = continued
    stopped = job("stopped", continue_from=half.output_dir)
    stop_at(4)
    assert run(stopped) is None
    os.rename(half.output_dir, f"{half.output_dir}-moved")
    try:
        again = run(stopped)
    finally:
        os.rename(f"{half.output_dir}-moved", half.output_dir)

    assert again == pytest.approx(scores, abs=1e-6)
    with pytest.raises(ValueError, match="belongs to another run.*continue"):
        run(dataclasses.replace(stopped, continue_from=None))


def examples_read(config):
    path = run_checkpoints.latest_checkpoint(config.output_dir)
    state = files.read_json_object(os.path.join(path, "state.json"))
    return state["examples_read"]


def test_only_records_in_the_same_order_are_read_from_where_the_run_was(
    continued, half, job
):
    same, _ = continued
    # With another seed, schedule and batch size, and in a later phase.
    other = job(
        "other",
        continue_from=half.output_dir,
        random_seed=1,
        train_batch_size=4,
        depth_schedule="1@0,2@1",
        poly_power=1.0,
        log_steps=1,
    )

    run(other)

    length = str(runs.S)
    assert examples_read(same) == {length: runs.NUM_PRETRAINING_STEPS * 8}
    assert examples_read(other) == {length: HALF * 4}
    first, *lines = runs.lines_of(other.output_dir)
    assert (first["step"], first["depth"]) == (HALF, 2)
    rates = [line["learning_rate"] for line in lines if "loss" in line]
    assert rates == pytest.approx([0.01 * (1 - done / 6) for done in (3, 4, 5)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer": "adamw"}, r"optimizer='muon' \(now 'adamw'\)"),
        (
            {"objectives": ("mlm",)},
            r"objectives=\['mlm', 'sop'\] \(now \['mlm'\]\)",
        ),
        (
            {"albert_config": runs.config(inner_group_num=2)},
            r"config.inner_group_num=1 \(now 2\)",
        ),
        ({"num_train_steps": HALF}, "has done 3 steps.*Pass a larger number"),
    ],
)
def test_runs_that_do_not_fit_are_refused(half, job, changes, message):
    second = job("second", continue_from=half.output_dir, **changes)

    with pytest.raises(ValueError, match=message):
        run(second)
    assert not os.path.exists(second.output_dir)


@pytest.mark.parametrize("content", [{}, {"run.json": '{"task": "rte"}'}])
def test_only_a_pretraining_can_go_on(content, job, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name, text in content.items():
        (source / name).write_text(text)

    with pytest.raises(
        ValueError, match=f"{re.escape(str(source))}' is not the output"
    ):
        run(job("second", continue_from=str(source)))
