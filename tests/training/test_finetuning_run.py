"""Which runs give a degenerate model, and what becomes of it."""

import dataclasses
import os

import numpy as np
import pytest

from albert_tf import files
from albert_tf.tasks.task import ExampleSet
from tests.training import runs


@pytest.fixture
def mute_task():
    """A task that predicts a constant the first `num_mute` times it is made."""

    class MuteTask(runs.WordTask):
        num_mute = 1

        def __init__(self, config, *, seed, dtype):
            super().__init__(config, seed=seed, dtype=dtype)
            self._is_mute = MuteTask.num_mute > 0
            MuteTask.num_mute -= 1

        def outputs(self, batch):
            outputs = super().outputs(batch)
            if self._is_mute:
                outputs["logits"] *= 0
            return outputs | {"token_sums": 0 * outputs["token_sums"]}

    return MuteTask


def results_of(job):
    return files.read_json(os.path.join(job.output_dir, "eval_results.json"))


def report_of(job):
    path = os.path.join(job.output_dir, "report.html")
    with open(path, encoding="utf-8") as file:
        return file.read()


def test_a_model_that_learns_nothing_is_a_result_that_says_so(
    job, mute_task, caplog
):
    mute = job(make_task=mute_task)

    scores = mute.run()

    assert scores["degenerate"] == 1
    assert results_of(mute) == scores
    assert "degenerate" in report_of(mute)
    assert "on records that it was trained on, the loss is 0.69" in caplog.text
    assert "Try a lower --learning_rate, a longer warm-up, more st" in (
        caplog.text
    )


def test_a_short_trial_is_not_compared_with_chance(job, mute_task):
    scores = job(make_task=mute_task, num_train_steps=6).run()

    assert set(scores) == {"accuracy", "loss", "global_step"}


def test_without_evaluation_the_training_records_decide(job, mute_task):
    # A batch size of evaluations that two replicas do not divide.
    settings = {"evaluation": (), "strategy": "mirrored", "eval_batch_size": 7}

    assert job("sound", **settings).run() == {"global_step": 60}
    assert job(make_task=mute_task, **settings).run() == {
        "global_step": 60,
        "degenerate": 1,
    }


def test_a_model_that_has_learned_its_training_records_is_not_degenerate(
    job, caplog
):
    wrong = [
        dataclasses.replace(x, label=1 - x.label) for x in runs.sentences(30, 2)
    ]
    misled = job(evaluation=(ExampleSet(examples=wrong, data=runs.WordData()),))

    scores = misled.run()

    assert set(scores) == {"accuracy", "loss", "global_step"}
    assert "learned from its training records only" in caplog.text


def test_a_degenerate_seed_is_named_and_left_out_of_the_medians(
    job, mute_task, caplog
):
    several = job(make_task=mute_task, num_seeds=2, num_train_steps=50)

    scores = several.run()

    results = results_of(several)
    seeds, failed = results.pop("seeds"), results.pop("failed_seeds")
    assert results == scores
    assert [own["degenerate"] for own in seeds.values()] == [1, 0]
    assert scores["accuracy"] == seeds["12346"]["accuracy"]
    assert scores["accuracy_std"] == 0
    assert (scores["num_seeds"], scores["num_failed_seeds"]) == (1, 1)
    assert scores["best_seed"] == 12346
    assert "degenerate" not in scores
    assert list(failed) == ["12345"]
    assert failed["12345"].startswith("The model is degenerate, no better")
    assert "1 of 2 seeds have failed and are left out" in caplog.text
    assert "The model is degenerate, no better" in report_of(several)


@pytest.mark.slow
def test_results_of_degenerate_seeds_alone_say_so(job, mute_task):
    mute_task.num_mute = 3
    several = job(make_task=mute_task, num_seeds=2, num_train_steps=50)

    scores = several.run()

    assert scores["degenerate"] == 1
    assert (scores["num_seeds"], scores["num_failed_seeds"]) == (2, 2)
    seeds = results_of(several)["seeds"].values()
    values = [own["accuracy"] for own in seeds]
    assert scores["accuracy"] == pytest.approx(np.mean(values))


def test_seeds_that_all_diverge_are_an_error(job):
    several = job(num_seeds=2, num_train_steps=10, learning_rate=1e30)

    with pytest.raises(
        ValueError, match="None of the 2 seeds .* first: Training diverged"
    ):
        several.run()
