"""What one run leaves, and which runs give a degenerate model."""

import dataclasses
import html
import math
import os
import types

import numpy as np
import pytest

from albert_tf import files
from albert_tf.metrics.scores import Score, Scores
from albert_tf.tasks.task_data import ExampleSet
from albert_tf.training import several_runs
from tests.training import runs

# Evaluates and saves once.
ONCE = {"save_checkpoints_steps": 60}


@pytest.fixture
def mute_task():
    """A task with weights of 0 the first `num_mute` times it is made.

    They have no gradient, except for the last bias.
    """

    class MuteTask(runs.WordTask):
        num_mute = 1

        def __init__(self, config, *, seed, dtype):
            super().__init__(config, seed=seed, dtype=dtype)
            for variable in self.model.variables * (MuteTask.num_mute > 0):
                variable.assign(0 * variable)
            MuteTask.num_mute -= 1

    return MuteTask


def results_of(job, *folders):
    path = os.path.join(job.output_dir, *folders, "eval_results.json")
    results = files.read_json(path)
    assert results.pop("evaluated")["examples"]
    return results


def report_of(job):
    path = os.path.join(job.output_dir, "report.html")
    with open(path, encoding="utf-8") as file:
        return file.read()


def test_sets_have_their_names_and_one_file_each(job, mute_task, caplog):
    class Data(runs.WordData):
        def scores(self, examples, outputs):
            entries = (Score("accuracy", 0.5), Score("f1", math.nan))
            return Scores(entries=entries)

    main = runs.example_set(20, seed=2)
    other = runs.example_set(12, seed=5, name="other", data=Data())
    one = job(
        make_task=mute_task,
        num_train_steps=4,
        evaluation=(main, other),
        prediction=(main,),
    )

    scores = one.run()

    # A trial that is so short is not compared with chance.
    names = ["accuracy", "accuracy_other", "f1_other", "loss", "global_step"]
    assert list(scores) == names
    assert scores["f1_other"] == 0
    assert "f1 is nan; it is reported as 0." in caplog.text
    for folder, size in (("", 20), ("eval_other", 12)):
        path = os.path.join(one.output_dir, folder, "predictions.json")
        assert len(files.read_json(path)) == size
    assert not os.path.exists(os.path.join(one.output_dir, "eval"))


def test_without_evaluation_the_training_records_decide(job, mute_task):
    # A batch size of evaluations that two replicas do not divide.
    settings = {"evaluation": (), "strategy": "mirrored", "eval_batch_size": 7}
    mute = job(make_task=mute_task, num_train_steps=50, **settings | ONCE)

    assert mute.run() == {"global_step": 50, "degenerate": 1}
    assert not os.path.exists(os.path.join(mute.output_dir, "best"))


def test_a_model_that_has_learned_its_training_records_is_not_degenerate(job):
    wrong = [
        dataclasses.replace(x, label=1 - x.label) for x in runs.sentences(30, 2)
    ]
    misled = job(evaluation=(ExampleSet(examples=wrong, data=runs.WordData()),))

    assert set(misled.run()) == {"accuracy", "loss", "global_step"}


def test_a_degenerate_seed_is_named_and_left_out_of_the_medians(
    job, mute_task, caplog
):
    several = job(make_task=mute_task, num_seeds=2, num_train_steps=50, **ONCE)

    scores = several.run()

    results = results_of(several)
    seeds, failed = results.pop("seeds"), results.pop("failed_seeds")
    assert results == scores
    assert [own["degenerate"] for own in seeds.values()] == [1, 0]
    assert results_of(several, "seed-12345") == seeds["12345"]
    assert scores["accuracy"] == seeds["12346"]["accuracy"]
    assert scores["accuracy_std"] == 0
    assert (scores["num_seeds"], scores["num_failed_seeds"]) == (1, 1)
    assert scores["best_seed"] == 12346
    assert "degenerate" not in scores
    assert list(failed) == ["12345"]
    assert failed["12345"].startswith("The model is degenerate, no better")
    assert "1 of 2 seeds have failed and are left out" in caplog.text
    for text in (report_of(several), caplog.text):
        assert "The model is degenerate, no better" in text
        assert "trained on, the loss is 0.68" in text
        assert "Try a lower --learning_rate, a longer warm-up, more st" in text


def test_a_degenerate_fold_is_named_in_the_report(job, mute_task):
    class Data(runs.WordData):
        has_folds = True

        def texts_of(self, example):
            return (example.guid,)

    folds = {"num_folds": 2, "num_train_steps": 50, "evaluation": ()}
    several = job(make_task=mute_task, **folds, **ONCE, data=Data())

    several.run()

    path = os.path.join(several.output_dir, "eval_results.json")
    (caution,) = files.read_json(path)["evaluated"]["cautions"]
    assert caution.startswith("Fold 0: The model is degenerate, no better")
    assert caution in html.unescape(report_of(several))


@pytest.mark.slow
def test_results_of_degenerate_seeds_alone_say_so(job, mute_task):
    mute_task.num_mute = 3
    several = job(make_task=mute_task, num_seeds=2, num_train_steps=50, **ONCE)

    scores = several.run()

    assert scores["degenerate"] == 1
    assert (scores["num_seeds"], scores["num_failed_seeds"]) == (2, 2)
    seeds = results_of(several)["seeds"].values()
    values = [own["accuracy"] for own in seeds]
    assert scores["accuracy"] == pytest.approx(np.mean(values))


def test_seeds_that_diverge_are_an_error_and_keep_what_they_have_learnt(job):
    class Spoilt(runs.WordTask):
        def training_scores(self, sums):
            self.num_steps = getattr(self, "num_steps", 0) + 1
            scores = super().training_scores(sums)
            return scores if self.num_steps % 7 else {"loss": math.nan}

    several = job(
        make_task=Spoilt,
        num_seeds=2,
        num_train_steps=9,
        save_checkpoints_steps=3,
    )

    with pytest.raises(
        ValueError, match="None of the 2 seeds .* first: Training diverged at"
    ):
        several.run()

    one = several.replace(
        output_dir=os.path.join(several.output_dir, "seed-12346"),
        num_seeds=1,
        train=None,
        make_task=runs.WordTask,
    )
    assert one.run()["global_step"] in (3, 6)


def test_outputs_of_folds_come_in_the_order_of_rows():
    """Row `i` has `i` records, each with its name as an output."""
    data = types.SimpleNamespace(
        records=lambda rows, is_training: range(int(rows[0]))
    )
    rows = ExampleSet(examples=["1", "2", "3"], data=data)
    by_fold = [{"logits": [1.0, 3.1, 3.2, 3.3]}, {"logits": [2.1, 2.2]}]

    found = several_runs._in_order(rows, np.array([0, 1, 0]), by_fold)

    assert found == {"logits": [1.0, 2.1, 2.2, 3.1, 3.2, 3.3]}
    arrays = [{"logits": np.array([1.0, 3.0])}, {"logits": np.array([2.0])}]
    found = several_runs._in_order(rows, np.array([0, 1, 0]), arrays)
    np.testing.assert_array_equal(found["logits"], [1, 2, 3])


def test_a_score_that_a_fold_lacks_has_no_mean():
    both, one = (
        Scores(entries=tuple(Score(key, value) for key in keys))
        for keys, value in ((("accuracy", "roc_auc"), 0.5), (("accuracy",), 1))
    )

    entries = several_runs._of_folds(["accuracy", "roc_auc"], [both, one])

    assert [score.key for score in entries] == ["accuracy_mean", "accuracy_std"]
    assert entries[0].value == 0.75
