"""Whole fine-tuning runs of a tiny model on a task that is easily learnt."""

import json
import os
import pathlib
import shutil
import types

import numpy as np
import pytest

from albert_tf.checkpoints.metadata import Metadata
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.tasks.task_data import ExampleSet
from albert_tf.training import interface
from tests.training import runs


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

    assert set(scores) == {"accuracy", "loss", "global_step"}
    assert scores["accuracy"] > 0.8
    results = read_json(one.output_dir, "eval_results.json")
    evaluated = results.pop("evaluated")
    assert (evaluated["examples"], evaluated["step"]) == (
        len(one.sets.evaluation[0].examples),
        scores["global_step"],
    )
    assert results == scores
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
    # There is no evaluation before the first step.
    lines = runs.lines_of(one.output_dir)
    kinds = [(x["step"], "loss" in x) for x in lines[:3]]
    assert kinds == [(10, True), (20, True), (20, False)]
    assert {*lines[2]} == {"step", "eval_accuracy", "eval_loss"}


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
    assert results.pop("evaluated")["step"] == scores["global_step"]
    assert results == scores
    assert set(seeds) == {"12345", "12346"}
    values = [own["accuracy"] for own in seeds.values()]
    assert scores["accuracy"] == pytest.approx(np.mean(values))
    assert scores["accuracy_best"] == max(values)
    assert scores["accuracy_std"] == pytest.approx(np.std(values, ddof=1))
    best = f"seed-{scores['best_seed']}"
    own = {
        "accuracy": scores["accuracy_best"],
        "loss": scores["loss_best"],
        "global_step": scores["global_step"],
    }
    of_seed = read_json(several.output_dir, best, "eval_results.json")
    assert own.items() <= of_seed.items()
    # What is known of the weights, as in the card, are their own scores.
    known = Metadata.read(os.path.join(several.output_dir, "best"))
    assert known.evaluation["scores"] == own
    assert known.settings["random_seed"] == scores["best_seed"]
    assert read_json(several.output_dir, "eval", "predictions.json") == (
        read_json(several.output_dir, best, "eval", "predictions.json")
    )
    answers = read_json(several.output_dir, "predictions.json")
    (new,) = several.sets.prediction
    assert list(answers) == [x.guid for x in new.examples]


def test_a_trained_folder_evaluates_and_predicts_alone(trained, job, tmp_path):
    one, scores = trained
    shutil.copytree(one.output_dir, tmp_path / "run")
    new = runs.example_set(5, seed=3, name="new")
    # Settings of a training that there is not.
    settings = {"num_train_steps": 77, "learning_rate": 0.5}
    alone = job(train=None, prediction=(new,), data=DATA, **settings)

    assert alone.run() == scores
    assert len(read_json(alone.output_dir, "new", "predictions.json")) == 5
    report = pathlib.Path(alone.output_dir, "report.html").read_text("utf-8")
    assert "<td>num_train_steps</td><td>60</td>" in report
    assert "<td>learning_rate</td><td>0.01</td>" in report
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
    # They select the best weights.
    others = (runs.example_set(30, seed=9, data=DATA),)
    with pytest.raises(ValueError, match="another run, with eval_records="):
        one.replace(evaluation=others).run()


def test_a_seed_of_other_settings_is_refused_before_anything_is_written(
    seeds_run,
):
    several, _ = seeds_run
    names = os.listdir(several.output_dir)

    with pytest.raises(ValueError, match="seed-12345.*learning_rate"):
        several.replace(learning_rate=1e-9).run()
    assert os.listdir(several.output_dir) == names


@pytest.mark.slow
def test_a_finished_run_of_seeds_is_repeated_or_gets_more(seeds_run, tmp_path):
    finished, scores = seeds_run
    shutil.copytree(finished.output_dir, tmp_path / "run")
    several = finished.replace(output_dir=str(tmp_path / "run"))

    assert several.run() == scores
    assert several.replace(num_seeds=3).run()["num_seeds"] == 3


def test_the_results_of_all_seeds_are_not_replaced_by_those_of_one(
    seeds_run, tmp_path, caplog
):
    finished, scores = seeds_run
    shutil.copytree(finished.output_dir, tmp_path / "run")
    before = read_json(tmp_path / "run", "eval_results.json")
    alone = finished.replace(
        output_dir=str(tmp_path / "run"), num_seeds=1, train=None
    )

    assert alone.run()["accuracy"] == scores["accuracy_best"]

    assert read_json(tmp_path / "run", "eval_results.json") == before
    assert "which has the results of all seeds." in caplog.text


@pytest.fixture
def weights(trained, tmp_path):
    """A copy of the weights of the run, outside of its folder."""
    folder = tmp_path / "weights"
    shutil.copytree(os.path.join(trained[0].output_dir, "best"), folder)
    return folder


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (
            {"labels": ("high", "low")},
            r"labels=\['high', 'low'\] \(now \['low', 'high'\]\)",
        ),
        ({"tokenizer_hash": "1a2b"}, r"tokenizer_hash='1a2b' \(now '3c4d'\)"),
        ({"do_lower_case": False}, r"do_lower_case=False \(now True\)"),
    ],
)
def test_weights_of_another_meaning_are_not_used(known, message, job, weights):
    Metadata(**known).write(weights)
    one = job(
        init_checkpoint=str(weights),
        train=None,
        data=runs.WordData(labels=["low", "high"], tokenizer="3c4d"),
    )

    with pytest.raises(ValueError, match=message):
        one.run()
    assert not os.path.exists(one.output_dir)


def test_a_damaged_newest_checkpoint_is_named_with_what_to_do(
    trained, tmp_path
):
    shutil.copytree(trained[0].output_dir, tmp_path / "run")
    one = trained[0].replace(output_dir=str(tmp_path / "run"))
    newest = tmp_path / "run" / "checkpoints" / "step-00000060"

    for damage, message in (
        (lambda path: path.write_bytes(b"1"), "is damaged or incomplete"),
        (lambda path: path.unlink(), "No such file"),
    ):
        damage(newest / "model.ckpt.data-00000-of-00001")
        with pytest.raises(ValueError, match=f"{message}.*Or move the folder"):
            one.run()
    shutil.rmtree(newest)
    assert one.run() == trained[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"evaluation": (), "num_seeds": 2},
            "`num_seeds` needs training and evaluations",
        ),
        (
            {"evaluation": (), "early_stopping_patience": 2},
            "`early_stopping_patience` needs training and evaluations",
        ),
        (
            {"evaluation": (), "best_metric": "loss"},
            "`best_metric` needs training and evaluations",
        ),
        (
            {"train_batch_size": 7, "gradient_accumulation_steps": 2},
            r"`train_batch_size` must be a multiple of 2, .*=7",
        ),
        *(
            (
                {"strategy": "mirrored", name: 7},
                rf"`{name}` must be a multiple of 2, .*=7",
            )
            for name in ("eval_batch_size", "predict_batch_size")
        ),
        *(
            ({"init_checkpoint": "nowhere", "num_seeds": n}, "no checkpoint")
            for n in (1, 2)
        ),
    ],
)
def test_what_cannot_be_run_is_an_error_and_leaves_nothing(
    changes, message, job
):
    one = job(prediction=(runs.example_set(2),), **changes)

    with pytest.raises((ValueError, FileNotFoundError), match=message):
        one.run()
    assert not os.path.exists(one.output_dir)


@pytest.mark.parametrize(
    ("low", "num_examples", "says"),
    [(0.49, 200, True), (0.51, 200, False), (0.8, 20, True)],
)
def test_a_score_is_told_from_its_baseline_by_enough_examples(
    low, num_examples, says, caplog
):
    bounds = [
        Score(f"accuracy_interval_{name}", value, Role.INTERVAL, "accuracy")
        for name, value in (("low", low), ("high", 0.95))
    ]
    scores = Scores(
        entries=(
            Score("accuracy", 0.9),
            Score.baseline("accuracy", 0.5),
            *bounds,
        )
    )

    data = types.SimpleNamespace(primary_metric="accuracy")
    examples = ExampleSet(examples=range(num_examples), data=data)

    interface.warn_of_chance(scores, [examples])

    expected = f"Only {num_examples} examples were evaluated: on others, "
    expected += f"accuracy may be between {low} and 0.95."
    assert caplog.messages == [expected] * says
