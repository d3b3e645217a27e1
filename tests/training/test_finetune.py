"""Whole fine-tuning runs of a tiny model on a task that is easily learnt."""

import dataclasses
import json
import math
import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import run_checkpoints, tf1
from albert_tf.training import metric_log

NUM_STEPS = 60


def lines_of(output_dir):
    return [
        {k: v for k, v in line.items() if k not in metric_log.TIMING_KEYS}
        for line in metric_log.read_lines(output_dir)
    ]


def read_json(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return json.load(file)


def arrays_of(output_dir, step=NUM_STEPS):
    folder = os.path.join(output_dir, "checkpoints", f"step-{step:08d}")
    return tf1.read(os.path.join(folder, run_checkpoints.MODEL_PREFIX))


def test_a_run_learns_and_leaves_what_was_promised(job, example_set):
    unlabelled = example_set(9, seed=3, name="new")
    one = job(prediction=(unlabelled,))

    scores = one.run()

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
    assert list(answers) == [x.guid for x in unlabelled.examples]


def test_the_log_has_losses_and_evaluations_but_none_before_the_first_step(job):
    one = job(num_train_steps=20, save_checkpoints_steps=10)

    one.run()

    lines = lines_of(one.output_dir)
    assert [(x["step"], "loss" in x) for x in lines] == [
        (10, True),
        (10, False),
        (20, True),
        (20, False),
    ]
    assert set(lines[1]) == {
        "step",
        "eval_accuracy",
        "eval_constant_predictions",
    }


@pytest.mark.parametrize("strategy", ["one", "mirrored"])
def test_a_stopped_run_goes_on_to_the_same_bits(
    strategy, job, tiny_config, monkeypatch, deterministic
):
    options = {
        "config": tiny_config(dropout=0.1),
        "gradient_accumulation_steps": 2,
        "strategy": strategy,
        "deterministic": True,
        "layerwise_lr_decay": 0.9,
        "freeze_embeddings": True,
    }
    whole, stopped = job("whole", **options), job("stopped", **options)
    scores = whole.run()
    write = metric_log.MetricLog.write

    def write_and_stop(log, step, values):
        write(log, step, values)
        if step == 30:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr(metric_log.MetricLog, "write", write_and_stop)
        assert stopped.run() is None
    assert not os.path.exists(
        os.path.join(stopped.output_dir, "eval_results.json")
    )

    assert stopped.run() == scores
    assert lines_of(stopped.output_dir) == lines_of(whole.output_dir)
    one, other = arrays_of(stopped.output_dir), arrays_of(whole.output_dir)
    assert set(one) == set(other)
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)
    for name in (n for n in one if n.startswith("bert/embeddings/")):
        first = arrays_of(whole.output_dir, 0)[name]
        np.testing.assert_array_equal(one[name], first, err_msg=name)


def test_two_replicas_that_accumulate_give_the_run_of_one(job):
    one = job("one")
    two = job("two", strategy="mirrored", gradient_accumulation_steps=2)

    scores = one.run()

    assert two.run() == pytest.approx(scores, rel=1e-4)
    for ours, theirs in zip(
        lines_of(one.output_dir), lines_of(two.output_dir), strict=True
    ):
        assert ours == pytest.approx(theirs, rel=1e-3)
    predictions = [
        read_json(x.output_dir, "eval", "predictions.json") for x in (one, two)
    ]
    assert predictions[0] == predictions[1]


@pytest.fixture
def mute_task(word_task):
    """A task that says the same of all records, in the attempts of `mute`."""

    class MuteTask(word_task):
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
def early_mute_task(word_task):
    """A task whose evaluations are constant, but for the last of 3."""

    class EarlyMuteTask(word_task):
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
    job, word_data, early_mute_task
):
    class Flattering(word_data):
        def scores(self, examples, outputs):
            early_mute_task.num_evaluations += 1
            is_constant = len(set(np.argmax(outputs["logits"], -1))) == 1
            return {"accuracy": 1.0 if is_constant else 0.5}

    one = job(
        make_task=early_mute_task, data=Flattering(), early_stopping_patience=1
    )
    early_mute_task.num_evaluations = 1

    scores = one.run()

    lines = [x for x in lines_of(one.output_dir) if "eval_accuracy" in x]
    assert [x["eval_constant_predictions"] for x in lines] == [1, 1, 0]
    assert scores == {"accuracy": 0.5, "global_step": 60}


def test_a_run_that_predicts_one_thing_is_restarted(job, mute_task, caplog):
    restarted = job(make_task=mute_task)

    scores = restarted.run()

    assert scores["accuracy"] > 0.8
    assert "Starting again with random_seed=1012348, num_warmup_steps=10." in (
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
            "evaluations in a row gave all records the same prediction; 2: ",
        ):
            stuck.run()

    assert not os.path.exists(
        os.path.join(stuck.output_dir, "eval_results.json")
    )
    assert mute_task.num_mute == 8


def test_a_collapse_may_be_ignored(job, mute_task, caplog):
    ignored = job(make_task=mute_task, on_collapse="ignore")

    scores = ignored.run()

    assert 0 < scores["accuracy"] < 1
    assert scores["constant_predictions"] == 1
    assert read_json(ignored.output_dir, "eval_results.json") == scores
    assert "got the same prediction. The model has learnt nothing" in (
        caplog.text
    )


def test_a_short_run_is_not_judged(job, mute_task):
    scores = job(make_task=mute_task, num_train_steps=6).run()

    assert scores["constant_predictions"] == 1


def test_seeds_give_median_spread_and_the_predictions_of_the_best(
    job, example_set
):
    new = example_set(9, seed=3)
    several = job(num_seeds=2, num_train_steps=30, prediction=(new,))

    scores = several.run()

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
    assert list(answers) == [x.guid for x in new.examples]

    assert several.run() == scores


def test_seeds_of_which_none_learns_give_no_result(job, mute_task):
    mute_task.num_mute = 10
    several = job(
        make_task=mute_task, num_seeds=2, max_restarts=0, num_train_steps=50
    )

    with pytest.raises(
        ValueError, match="None of the 2 seeds gives a result. The first: All 1"
    ):
        several.run()


def test_a_seed_that_does_not_learn_is_told_and_left_out(
    job, mute_task, caplog
):
    mute_task.num_mute = 1
    several = job(
        make_task=mute_task, num_seeds=2, max_restarts=0, num_train_steps=50
    )

    scores = several.run()

    results = read_json(several.output_dir, "eval_results.json")
    assert (scores["num_seeds"], scores["accuracy_std"]) == (1, 0.0)
    assert scores["num_failed_seeds"] == 1
    assert "1 of 2 seeds give no result, and are left out of the" in caplog.text
    assert list(results["seeds"]) == ["12346"]
    assert "All 1 attempts" in results["failed_seeds"]["12345"]


def test_a_seed_whose_collapse_is_ignored_is_left_out_too(job, mute_task):
    mute_task.num_mute = 1
    several = job(
        make_task=mute_task,
        num_seeds=2,
        on_collapse="ignore",
        num_train_steps=50,
    )

    scores = several.run()

    results = read_json(several.output_dir, "eval_results.json")
    assert (scores["num_seeds"], scores["num_failed_seeds"]) == (1, 1)
    assert results["failed_seeds"] == {"12345": "Its predictions are constant."}


def test_a_run_that_diverges_keeps_what_it_has_learnt(job, word_task):
    class Spoilt(word_task):
        def training_scores(self, sums):
            self.num_steps = getattr(self, "num_steps", 0) + 1
            scores = super().training_scores(sums)
            return scores if self.num_steps < 45 else {"loss": math.nan}

    one = job(make_task=Spoilt, save_checkpoints_steps=20)

    with pytest.raises(ValueError, match="Training diverged at step 45"):
        one.run()

    assert os.listdir(os.path.join(one.output_dir, "best"))
    assert os.listdir(os.path.join(one.output_dir, "checkpoints"))
    trained = one.replace(train=None, make_task=word_task)
    assert trained.run()["global_step"] in (20, 40)


def test_seeds_that_diverge_are_failures(job):
    several = job(num_seeds=2, num_train_steps=10, learning_rate=1e30)

    with pytest.raises(ValueError, match="None of the 2 .*: Training"):
        several.run()


def test_a_seed_that_was_restarted_says_so(job, mute_task):
    mute_task.num_mute = 1
    several = job(make_task=mute_task, num_seeds=2)

    several.run()

    results = read_json(several.output_dir, "eval_results.json")
    restarts = [own["restarts"] for own in results["seeds"].values()]
    assert restarts == [1, 0]


def test_training_ends_when_scores_do_not_get_better(job):
    one = job(
        num_train_steps=400,
        save_checkpoints_steps=10,
        early_stopping_patience=2,
    )

    scores = one.run()

    last = lines_of(one.output_dir)[-1]["step"]
    assert last == scores["global_step"] + 20 < 400
    assert one.run() == scores
    assert lines_of(one.output_dir)[-1]["step"] == last


def test_a_second_evaluation_set_has_its_name_behind_its_keys(job, example_set):
    sets = (
        example_set(10, seed=2),
        example_set(12, seed=5, name="other"),
    )
    scores = job(evaluation=sets, num_train_steps=4).run()

    assert list(scores) == ["accuracy", "accuracy_other", "global_step"]


def test_a_trained_folder_evaluates_and_predicts_alone(job, example_set):
    trained = job(num_train_steps=20, init_checkpoint=None)
    scores = trained.run()
    new = example_set(5, seed=3, name="new")
    alone = trained.replace(train=None, prediction=(new,))

    assert alone.run() == scores
    assert len(read_json(alone.output_dir, "new", "predictions.json")) == 5
    elsewhere = job(
        "elsewhere",
        train=None,
        evaluation=(),
        prediction=(new,),
        init_checkpoint=os.path.join(trained.output_dir, "best"),
    )
    assert elsewhere.run() == {"global_step": scores["global_step"]}
    assert read_json(elsewhere.output_dir, "new", "predictions.json") == (
        read_json(alone.output_dir, "new", "predictions.json")
    )
    assert not os.path.exists(
        os.path.join(elsewhere.output_dir, "eval_results.json")
    )


def test_weights_to_predict_with_must_be_somewhere(job):
    with pytest.raises(ValueError, match="no trained weights in '.*run'"):
        job(train=None).run()
    assert not os.path.exists(job().output_dir)


def test_the_folder_of_another_task_is_refused(job, word_data):
    trained = job(num_train_steps=2)
    trained.run()
    other = word_data()
    other.name = "letters"

    names = os.listdir(trained.output_dir)
    several = dataclasses.replace(trained.finetuning, num_seeds=2)
    weights = os.path.join(trained.output_dir, "best")
    for changes in (
        {},
        {"train": None},
        {"train": None, "init_checkpoint": weights},
        {"finetuning": several},
    ):
        with pytest.raises(
            ValueError, match=r"another run, .*task='words' \(now 'letters'"
        ):
            finetune.run(trained.replace(data=other, **changes))
    assert os.listdir(trained.output_dir) == names


def test_weights_of_other_labels_are_not_used_for_a_job(
    job, word_data, example_set
):
    trained = job(num_train_steps=2, data=word_data(labels=["low", "high"]))
    trained.run()
    new = example_set(5, seed=3)
    weights = os.path.join(trained.output_dir, "best")
    swapped = job(
        "new",
        data=word_data(labels=["high", "low"]),
        init_checkpoint=weights,
        train=None,
        evaluation=(),
        prediction=(new,),
    )

    with pytest.raises(
        ValueError, match=r"trained with labels=\['low', 'high'\], and are to"
    ):
        swapped.run()
    assert not os.path.exists(swapped.output_dir)
    assert finetune.run(swapped.replace(data=trained.data))


def test_weights_to_start_from_must_be_there_before_records_are_made(job):
    for num_seeds in (1, 2):
        one = job(init_checkpoint="nowhere", num_seeds=num_seeds)
        with pytest.raises(FileNotFoundError, match="no checkpoint 'nowhere'"):
            one.run()
        assert not os.path.exists(one.output_dir)


def test_other_training_examples_make_another_run(job, example_set):
    trained = job(num_train_steps=2)
    trained.run()
    other = example_set(40, seed=9)

    with pytest.raises(ValueError, match="another run, with records="):
        finetune.run(trained.replace(train=other))


def test_training_without_evaluation_leaves_its_last_weights(job):
    blind = job(num_train_steps=3, evaluation=())

    assert blind.run() == {"global_step": 3}
    assert not os.path.exists(os.path.join(blind.output_dir, "best"))


@pytest.mark.parametrize(
    "name", ["train_batch_size", "eval_batch_size", "predict_batch_size"]
)
def test_batches_must_divide_over_the_replicas(name, job):
    odd = job(strategy="mirrored", **{name: 7})
    odd = odd.replace(prediction=odd.eval_sets)

    with pytest.raises(
        ValueError, match=rf"`{name}` must be a multiple of .*\(2 x 1\).*=7"
    ):
        odd.run()
    assert not os.path.exists(odd.output_dir)


def test_batches_that_repeat_a_record_are_told(job, example_set, caplog):
    few = example_set(5, seed=1)

    assert job(train=few, num_train_steps=2).run()

    assert "takes 8 records, and there are 5, so it takes some" in caplog.text


def test_a_score_that_is_not_defined_counts_as_0(job, word_data, caplog):
    class Undefined(word_data):
        def scores(self, examples, outputs):
            return {"accuracy": float("nan")}

    scores = job(data=Undefined(), num_train_steps=2).run()

    assert scores["accuracy"] == 0
    assert "accuracy is nan, which is taken for 0" in caplog.text


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_other_precisions_train(precision, job):
    assert job(precision=precision, num_train_steps=3).run()


def test_xla_compiles_the_step(job):
    assert job(jit_compile=True, num_train_steps=3).run()
