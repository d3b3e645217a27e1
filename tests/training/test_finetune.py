"""Whole fine-tuning runs of a tiny model on a task that is easily learnt."""

import json
import math
import os

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training import distribution, finetune

NUM_STEPS = 60


def read_json(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return json.load(file)


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


def test_the_log_has_losses_and_evaluations_but_none_before_the_first_step(
    job, lines_of
):
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
def test_a_stopped_run_resumes_to_the_same_bits(
    strategy,
    job,
    tiny_config,
    terminate_at,
    lines_of,
    arrays_of,
    deterministic,
):
    options = {
        "albert_config": tiny_config(dropout=0.1),
        "gradient_accumulation_steps": 2,
        "strategy": strategy,
        "deterministic": True,
        "layerwise_lr_decay": 0.9,
        "freeze_embeddings": True,
    }
    whole, stopped = job("whole", **options), job("stopped", **options)
    scores = whole.run()
    terminate_at(30)
    assert stopped.run() is None
    assert "eval_results.json" not in os.listdir(stopped.output_dir)

    assert stopped.run() == scores
    assert lines_of(stopped.output_dir) == lines_of(whole.output_dir)
    one, other = (arrays_of(x.output_dir, NUM_STEPS) for x in (stopped, whole))
    assert set(one) == set(other)
    start = arrays_of(whole.output_dir, 0)
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)
        if name.startswith("bert/embeddings/"):
            np.testing.assert_array_equal(array, start[name], err_msg=name)


def test_two_replicas_that_accumulate_give_the_run_of_one(job, lines_of):
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
    """A task that predicts a constant in its first `num_mute` attempts."""

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
    job, word_data, early_mute_task, lines_of
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
            "evaluations in a row predicted the same for all records; 2: ",
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


def test_training_ends_when_scores_do_not_get_better(job, lines_of):
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
    assert "eval_results.json" not in os.listdir(elsewhere.output_dir)


def test_weights_to_predict_with_must_be_somewhere(job):
    with pytest.raises(ValueError, match="no trained weights in '.*run'"):
        job(train=None).run()
    assert not os.path.exists(job().output_dir)


def test_the_folder_of_another_run_is_refused(job, word_data, example_set):
    trained = job(num_train_steps=2)
    trained.run()
    other = word_data()
    other.name = "letters"
    names = os.listdir(trained.output_dir)
    weights = os.path.join(trained.output_dir, "best")

    for changes in (
        {},
        {"train": None},
        {"train": None, "init_checkpoint": weights},
        {"num_seeds": 2},
    ):
        with pytest.raises(
            ValueError, match=r"another run, .*task='words' \(now 'letters'"
        ):
            trained.replace(data=other, **changes).run()
    assert os.listdir(trained.output_dir) == names
    with pytest.raises(ValueError, match="another run, with records="):
        trained.replace(train=example_set(40, seed=9)).run()


def test_a_seed_of_other_settings_is_refused_before_anything_is_written(job):
    several = job(num_seeds=2, num_train_steps=2)
    several.run()
    names = os.listdir(several.output_dir)

    with pytest.raises(ValueError, match="seed-12345.*learning_rate"):
        several.replace(learning_rate=1e-9).run()
    assert os.listdir(several.output_dir) == names
    assert several.replace(num_seeds=3).run()["num_seeds"] == 3


def test_weights_of_other_labels_are_not_used(job, word_data, example_set):
    trained = job(num_train_steps=2, data=word_data(labels=["low", "high"]))
    trained.run()
    swapped = job(
        "new",
        init_checkpoint=os.path.join(trained.output_dir, "best"),
        train=None,
        evaluation=(),
        prediction=(example_set(5, seed=3),),
    ).replace(data=word_data(labels=["high", "low"]))

    with pytest.raises(
        ValueError, match=r"trained with labels=\['low', 'high'\]\. Received"
    ):
        swapped.run()
    assert not os.path.exists(swapped.output_dir)
    assert swapped.replace(data=trained.sets.data).run()


@pytest.mark.parametrize("num_seeds", [1, 2])
def test_a_missing_checkpoint_is_an_error_before_records_are_made(
    num_seeds, job
):
    one = job(init_checkpoint="nowhere", num_seeds=num_seeds)

    with pytest.raises(FileNotFoundError, match="no checkpoint 'nowhere'"):
        one.run()
    assert not os.path.exists(one.output_dir)


def test_training_without_evaluation_leaves_its_last_weights(job):
    blind = job(num_train_steps=3, evaluation=())

    assert blind.run() == {"global_step": 3}
    assert not os.path.exists(os.path.join(blind.output_dir, "best"))


@pytest.mark.parametrize(
    "changes", [{"strategy": "mirrored"}, {"gradient_accumulation_steps": 2}]
)
def test_batches_that_cannot_be_divided_stop_a_run_before_it_starts(
    changes, job
):
    odd = job(train_batch_size=7, **changes)

    with pytest.raises(ValueError, match="`train_batch_size` must be a mult"):
        odd.run()
    assert not os.path.exists(odd.output_dir)


def test_batches_that_repeat_a_record_are_reported(job, example_set, caplog):
    assert job(train=example_set(5, seed=1), num_train_steps=2).run()

    assert "has 8 records, but there are only 5, so some occur" in caplog.text


def test_a_score_that_is_not_defined_counts_as_0(job, word_data, caplog):
    class Undefined(word_data):
        def scores(self, examples, outputs):
            return {"accuracy": float("nan")}

    scores = job(data=Undefined(), num_train_steps=2).run()

    assert scores["accuracy"] == 0
    assert "accuracy is nan; it is reported as 0." in caplog.text


@pytest.mark.parametrize(
    "changes",
    [
        {"precision": "bfloat16"},
        {"precision": "float16"},
        {"jit_compile": True},
    ],
)
def test_other_precisions_and_xla_train(changes, job):
    assert job(num_train_steps=3, **changes).run()


@pytest.mark.parametrize(
    ("device", "jit_compile", "length", "expected"),
    [
        ("CPU", False, 50, 16),
        ("GPU", True, 50, 64),
        ("GPU", True, 512, 64),
        ("TPU", False, 50, 50),
    ],
)
def test_batches_are_padded_to_buckets_or_on_a_tpu_to_one_length(
    device, jit_compile, length, expected, job, tiny_config, monkeypatch
):
    monkeypatch.setattr(distribution, "device_type", lambda _: device)
    config = job(
        albert_config=tiny_config(max_position_embeddings=512),
        max_seq_length=length,
        jit_compile=jit_compile,
    ).config

    padding = finetune.padding_for(config, tf.distribute.get_strategy())

    assert padding.bucket_width == expected
    assert padding.max_seq_length == length
    is_static = expected >= length
    assert padding.static_length == (length if is_static else None)
