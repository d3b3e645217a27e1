"""Whole fine-tuning runs of a tiny model on a task that is easily learnt."""

import json
import math
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training import finetune
from tests.training import runs

NUM_STEPS = 60


def read_json(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return json.load(file)


DATA = runs.WordData(labels=["low", "high"])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A job with a set to predict that has run, and its scores; read only."""
    job = runs.make_job(
        tmp_path_factory.mktemp("trained"),
        prediction=(runs.example_set(9, seed=3, name="new"),),
        data=DATA,
    )
    return job, job.run()


def test_a_run_learns_and_leaves_what_was_promised(trained):
    one, scores = trained

    assert set(scores) == {"accuracy", "global_step"}
    assert scores["accuracy"] > 0.8
    assert read_json(one.output_dir, "eval_results.json") == scores
    assert {"best", "checkpoints", "metrics.jsonl", "report.html"} < set(
        os.listdir(one.output_dir)
    )
    predictions = read_json(one.output_dir, "eval", "predictions.json")
    right = [
        predictions[x.guid] == x.label for x in one.sets.evaluation[0].examples
    ]
    assert np.mean(right) == pytest.approx(scores["accuracy"])
    answers = read_json(one.output_dir, "new", "predictions.json")
    assert list(answers) == [x.guid for x in one.sets.prediction[0].examples]


def test_the_log_has_losses_and_evaluations_but_none_before_the_first_step(
    trained,
):
    lines = runs.lines_of(trained[0].output_dir)

    assert [(x["step"], "loss" in x) for x in lines[:4]] == [
        (10, True),
        (20, True),
        (20, False),
        (30, True),
    ]
    assert set(lines[2]) == {
        "step",
        "eval_accuracy",
        "eval_constant_predictions",
    }


@pytest.mark.parametrize(
    "strategy", ["one", pytest.param("mirrored", marks=pytest.mark.slow)]
)
def test_a_stopped_run_resumes_to_the_same_bits(
    strategy, job, stop_at, deterministic
):
    options = {
        "albert_config": runs.config(dropout=0.1),
        "gradient_accumulation_steps": 2,
        "strategy": strategy,
        "deterministic": True,
        "layerwise_lr_decay": 0.9,
        "freeze_embeddings": True,
    }
    whole, stopped = job("whole", **options), job("stopped", **options)
    scores = whole.run()
    stop_at(30)
    assert stopped.run() is None
    stop_at(50, by_ctrl_c=True)
    with pytest.raises(KeyboardInterrupt):
        stopped.run()
    assert "eval_results.json" not in os.listdir(stopped.output_dir)

    assert stopped.run() == scores
    assert runs.lines_of(stopped.output_dir) == runs.lines_of(whole.output_dir)
    one, other = (
        runs.arrays_of(x.output_dir, NUM_STEPS) for x in (stopped, whole)
    )
    assert set(one) == set(other)
    start = runs.arrays_of(whole.output_dir, 0)
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)
        if name.startswith("bert/embeddings/"):
            np.testing.assert_array_equal(array, start[name], err_msg=name)


def test_two_replicas_that_accumulate_give_the_run_of_one(trained, job):
    one, scores = trained
    two = job(strategy="mirrored", gradient_accumulation_steps=2)

    assert two.run() == pytest.approx(scores, rel=1e-4)
    for ours, theirs in zip(
        runs.lines_of(one.output_dir),
        runs.lines_of(two.output_dir),
        strict=True,
    ):
        assert ours == pytest.approx(theirs, rel=1e-3)
    predictions = [
        read_json(x.output_dir, "eval", "predictions.json") for x in (one, two)
    ]
    assert predictions[0] == predictions[1]


@pytest.fixture
def mute_task():
    """A task that predicts a constant in its first `num_mute` attempts."""

    class MuteTask(runs.WordTask):
        num_mute = 2

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


@pytest.fixture
def early_mute_task():
    """A task whose evaluations are constant, but for the last of 3."""

    class EarlyMuteTask(runs.WordTask):
        num_evaluations = 0

        def outputs(self, batch):
            outputs = super().outputs(batch)
            is_mute = tf.py_function(self._is_mute, [], tf.bool)
            # All are taken for the label that is more frequent.
            mute = 0 * outputs["logits"] + tf.constant([[0.0, 9.0]])
            outputs["logits"] = tf.where(is_mute, mute, outputs["logits"])
            return outputs | {"token_sums": 0 * outputs["token_sums"]}

        @staticmethod
        def _is_mute():
            return EarlyMuteTask.num_evaluations < 3

    return EarlyMuteTask


def test_an_evaluation_with_one_prediction_is_never_the_best(
    job, early_mute_task
):
    class Flattering(runs.WordData):
        def scores(self, examples, outputs):
            early_mute_task.num_evaluations += 1
            is_constant = len(set(np.argmax(outputs["logits"], -1))) == 1
            return {"accuracy": 1.0 if is_constant else 0.5}

    one = job(
        make_task=early_mute_task, data=Flattering(), early_stopping_patience=1
    )
    early_mute_task.num_evaluations = 1

    scores = one.run()

    lines = [x for x in runs.lines_of(one.output_dir) if "eval_accuracy" in x]
    assert [x["eval_constant_predictions"] for x in lines] == [1, 1, 0]
    assert scores == {"accuracy": 0.5, "global_step": 60}


def test_a_run_that_predicts_one_thing_is_restarted(job, mute_task, caplog):
    restarted = job(make_task=mute_task)

    scores = restarted.run()

    assert scores["accuracy"] > 0.8
    assert "Restarting with random_seed=1012348, num_warmup_steps=10." in (
        caplog.text
    )
    assert "random_seed=2012351, num_warmup_steps=20." in caplog.text
    first, _ = read_json(restarted.output_dir, "attempts.json")["problems"]
    assert first == (
        "All 30 records of the evaluation set got the same prediction"
    )
    assert os.path.exists(os.path.join(restarted.output_dir, "attempt-1.jsonl"))
    assert restarted.run() == scores


def test_a_run_whose_attempts_all_fail_has_no_result(job, mute_task):
    mute_task.num_mute = 10
    stuck = job(
        make_task=mute_task,
        max_restarts=1,
        save_checkpoints_steps=5,
        learning_rate=1e-5,
    )

    for _ in range(2):  # the second time, nothing is trained again
        with pytest.raises(
            ValueError,
            match=r"All 2 attempts .* no result\. Attempt 1: At step 15, 3 "
            "evaluations .* predicted the same for all records; 2: At step 60",
        ):
            stuck.run()

    assert "eval_results.json" not in os.listdir(stuck.output_dir)
    assert mute_task.num_mute == 8


@pytest.mark.parametrize(
    "changes", [{"on_collapse": "ignore"}, {"num_train_steps": 6}]
)
def test_constant_predictions_may_be_ignored(changes, job, mute_task, caplog):
    ignored = job(make_task=mute_task, **changes)

    scores = ignored.run()

    assert 0 < scores["accuracy"] < 1
    assert scores["constant_predictions"] == 1
    assert read_json(ignored.output_dir, "eval_results.json") == scores
    assert "got the same prediction. The model has learnt nothing" in (
        caplog.text
    )


@pytest.fixture(scope="module")
def seeds_run(tmp_path_factory):
    """A job with two seeds that has run, and its scores; read only."""
    job = runs.make_job(
        tmp_path_factory.mktemp("seeds"),
        num_seeds=2,
        num_train_steps=30,
        prediction=(runs.example_set(9, seed=3),),
    )
    return job, job.run()


def test_seeds_give_median_spread_and_the_predictions_of_the_best(seeds_run):
    several, scores = seeds_run

    results = read_json(several.output_dir, "eval_results.json")
    seeds = results.pop("seeds")
    assert results.pop("failed_seeds") == {}
    assert results == scores
    assert set(seeds) == {"12345", "12346"}
    assert all(own["restarts"] == 0 for own in seeds.values())
    values = [own["accuracy"] for own in seeds.values()]
    assert scores["accuracy"] == pytest.approx(np.mean(values))
    assert scores["accuracy_best"] == max(values)
    assert scores["accuracy_std"] == pytest.approx(np.std(values, ddof=1))
    best = f"seed-{scores['best_seed']}"
    assert read_json(several.output_dir, best, "eval_results.json") == {
        "accuracy": scores["accuracy_best"],
        "global_step": scores["global_step"],
    }
    assert read_json(several.output_dir, "eval", "predictions.json") == (
        read_json(several.output_dir, best, "eval", "predictions.json")
    )
    answers = read_json(several.output_dir, "predictions.json")
    (new,) = several.sets.prediction
    assert list(answers) == [x.guid for x in new.examples]


NO_RESTART = {"max_restarts": 0, "num_train_steps": 50}
IGNORE = {"on_collapse": "ignore", "num_train_steps": 50}


@pytest.mark.parametrize(
    ("changes", "failure", "restarts"),
    [
        (NO_RESTART, "All 1 attempts of the run in", [0]),
        (IGNORE, "Its predictions are constant.", [0]),
        ({}, None, [1, 0]),
    ],
)
def test_a_seed_that_does_not_learn_is_restarted_or_left_out(
    changes, failure, restarts, job, mute_task, caplog
):
    mute_task.num_mute = 1
    several = job(make_task=mute_task, num_seeds=2, **changes)

    scores = several.run()

    results = read_json(several.output_dir, "eval_results.json")
    seeds = results["seeds"].values()
    assert [own["restarts"] for own in seeds] == restarts
    assert scores["num_seeds"] == len(restarts)
    assert scores["num_failed_seeds"] == 2 - len(restarts)
    if failure:
        assert scores["accuracy_std"] == 0
        assert list(results["seeds"]) == ["12346"]
        ((seed, text),) = results["failed_seeds"].items()
        assert seed == "12345"
        assert text.startswith(failure)
        assert "1 of 2 seeds give no result and are left out" in caplog.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (NO_RESTART, "All 1 attempts"),
        ({"num_train_steps": 10, "learning_rate": 1e30}, "Training diverged"),
    ],
)
def test_seeds_that_all_fail_are_an_error(changes, message, job, mute_task):
    mute_task.num_mute = 10 if changes is NO_RESTART else 0
    several = job(make_task=mute_task, num_seeds=2, **changes)

    with pytest.raises(
        ValueError,
        match=f"None of the 2 seeds gives a result. The first: {message}",
    ):
        several.run()


def test_a_run_that_diverges_keeps_what_it_has_learnt(job):
    class Spoilt(runs.WordTask):
        def training_scores(self, sums):
            self.num_steps = getattr(self, "num_steps", 0) + 1
            scores = super().training_scores(sums)
            return scores if self.num_steps < 45 else {"loss": math.nan}

    one = job(make_task=Spoilt, save_checkpoints_steps=20)

    with pytest.raises(ValueError, match="Training diverged at step 45"):
        one.run()

    assert os.listdir(os.path.join(one.output_dir, "best"))
    assert os.listdir(os.path.join(one.output_dir, "checkpoints"))
    trained = one.replace(train=None, make_task=runs.WordTask)
    assert trained.run()["global_step"] in (20, 40)


def test_a_second_evaluation_set_has_its_name_behind_its_keys(job):
    sets = (
        runs.example_set(10, seed=2),
        runs.example_set(12, seed=5, name="other"),
    )
    scores = job(evaluation=sets, num_train_steps=4).run()

    assert list(scores) == ["accuracy", "accuracy_other", "global_step"]


def test_a_trained_folder_evaluates_and_predicts_alone(trained, job, tmp_path):
    one, scores = trained
    shutil.copytree(one.output_dir, tmp_path / "run")
    new = runs.example_set(5, seed=3, name="new")
    alone = job(train=None, prediction=(new,), data=DATA)

    assert alone.run() == scores
    assert len(read_json(alone.output_dir, "new", "predictions.json")) == 5
    elsewhere = job(
        "elsewhere",
        train=None,
        evaluation=(),
        prediction=(new,),
        data=DATA,
        init_checkpoint=os.path.join(one.output_dir, "best"),
    )
    assert elsewhere.run() == {"global_step": scores["global_step"]}
    assert read_json(elsewhere.output_dir, "new", "predictions.json") == (
        read_json(alone.output_dir, "new", "predictions.json")
    )
    assert "eval_results.json" not in os.listdir(elsewhere.output_dir)


def test_the_folder_of_another_run_is_refused(trained):
    one, _ = trained
    other = runs.WordData()
    other.name = "letters"
    names = os.listdir(one.output_dir)
    weights = os.path.join(one.output_dir, "best")

    for changes in (
        {},
        {"train": None},
        {"train": None, "init_checkpoint": weights},
        {"num_seeds": 2},
    ):
        with pytest.raises(
            ValueError, match=r"another run, .*task='words' \(now 'letters'"
        ):
            one.replace(data=other, **changes).run()
    assert os.listdir(one.output_dir) == names
    with pytest.raises(ValueError, match="another run, with records="):
        one.replace(train=runs.example_set(40, seed=9, data=DATA)).run()


def test_a_seed_of_other_settings_is_refused_before_anything_is_written(
    seeds_run,
):
    several, _ = seeds_run
    names = os.listdir(several.output_dir)

    with pytest.raises(ValueError, match="seed-12345.*learning_rate"):
        several.replace(learning_rate=1e-9).run()
    assert os.listdir(several.output_dir) == names


def test_a_finished_run_of_seeds_is_repeated_or_gets_more(seeds_run, tmp_path):
    finished, scores = seeds_run
    shutil.copytree(finished.output_dir, tmp_path / "run")
    several = finished.replace(output_dir=str(tmp_path / "run"))

    assert several.run() == scores
    assert several.replace(num_seeds=3).run()["num_seeds"] == 3


def test_weights_of_other_labels_are_not_used(trained, job):
    swapped = job(
        init_checkpoint=os.path.join(trained[0].output_dir, "best"),
        train=None,
        evaluation=(),
        prediction=(runs.example_set(5, seed=3),),
    ).replace(data=runs.WordData(labels=["high", "low"]))

    with pytest.raises(
        ValueError, match=r"trained with labels=\['low', 'high'\]\. Received"
    ):
        swapped.run()
    assert not os.path.exists(swapped.output_dir)
    assert swapped.replace(data=DATA).run()


@pytest.mark.parametrize("num_seeds", [1, 2])
def test_a_missing_checkpoint_is_an_error_before_records_are_made(
    num_seeds, job
):
    one = job(init_checkpoint="nowhere", num_seeds=num_seeds)

    with pytest.raises(FileNotFoundError, match="no checkpoint 'nowhere'"):
        one.run()
    assert not os.path.exists(one.output_dir)


def test_training_without_evaluation_leaves_its_last_weights(job):
    # Batch sizes of sets that there are none of do not matter.
    unused = {"strategy": "mirrored", "eval_batch_size": 7}
    blind = job(num_train_steps=3, evaluation=(), **unused)

    assert blind.run() == {"global_step": 3}
    assert not os.path.exists(os.path.join(blind.output_dir, "best"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"albert_config": runs.config(vocab_size=51)},
            r"has 50 tokens, but the config has vocab_size=51\. Pass",
        ),
        (
            {"evaluation": (), "early_stopping_patience": 2},
            "no evaluation set. .*early_stopping_patience=2",
        ),
        ({"names": ("b",)}, "first evaluation set must have the name ''"),
        ({"names": ("", "b", "b")}, "different names. Received: '', 'b', 'b'"),
        (
            {"evaluation": (), "num_seeds": 2},
            "`num_seeds` above 1 needs training and evaluation",
        ),
        (
            {"train": None, "num_seeds": 2},
            "`num_seeds` above 1 needs training and evaluation",
        ),
    ],
)
def test_settings_that_do_not_fit_the_examples_are_an_error(
    changes, message, job
):
    if "names" in changes:
        names = changes["names"]
        changes = {
            "evaluation": tuple(runs.example_set(2, name=n) for n in names)
        }

    with pytest.raises(ValueError, match=message):
        job(**changes).run()


@pytest.mark.parametrize(
    ("changes", "name", "numbers"),
    [
        ({"strategy": "mirrored"}, "train_batch_size", "2 x 1"),
        ({"gradient_accumulation_steps": 2}, "train_batch_size", "1 x 2"),
        ({"strategy": "mirrored"}, "eval_batch_size", "2 x 1"),
        ({"strategy": "mirrored"}, "predict_batch_size", "2 x 1"),
    ],
)
def test_batches_that_cannot_be_divided_stop_a_run_before_it_starts(
    changes, name, numbers, job
):
    odd = job(prediction=(runs.example_set(2),), **changes, **{name: 7})

    with pytest.raises(
        ValueError, match=rf"`{name}` must be a multiple .*\({numbers}\).*=7"
    ):
        odd.run()
    assert not os.path.exists(odd.output_dir)


def test_batches_that_repeat_a_record_are_reported(job, caplog):
    assert job(train=runs.example_set(5, seed=1), num_train_steps=2).run()

    assert "has 8 records, but there are only 5, so some occur" in caplog.text


def test_a_score_that_is_not_defined_counts_as_0(job, caplog):
    class Undefined(runs.WordData):
        def scores(self, examples, outputs):
            return {"accuracy": float("nan")}

    scores = job(data=Undefined(), num_train_steps=2).run()

    assert scores["accuracy"] == 0
    assert "accuracy is nan; it is reported as 0." in caplog.text


@pytest.mark.parametrize(
    "changes",
    [
        {"precision": "bfloat16"},
        {"precision": "float16", "jit_compile": True},
    ],
)
def test_other_precisions_and_xla_train(changes, job):
    assert job(num_train_steps=3, **changes).run()


def test_a_summary_has_median_spread_and_best_of_each_score():
    scores = {
        5: {"f1": 0.9, "accuracy": 0.5, "global_step": 10},
        6: {"f1": 0.1, "accuracy": 0.7, "global_step": 20},
        7: {"f1": 0.2, "accuracy": 0.6, "global_step": 30},
    }

    assert finetune.summary(scores, best=6, num_failed=2) == {
        "f1": 0.2,
        "f1_std": pytest.approx(0.43589, rel=1e-4),
        "f1_best": 0.1,
        "accuracy": 0.6,
        "accuracy_std": pytest.approx(0.1),
        "accuracy_best": 0.7,
        "num_seeds": 3,
        "num_failed_seeds": 2,
        "best_seed": 6,
        "global_step": 20,
    }
