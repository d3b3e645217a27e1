"""The command of multiple choice, from its flags to its files."""

import functools
import json

import numpy as np
import pytest

from tests.cli.conftest import ANIMALS, results_of

SCRIPT = "run_race.py"
# As in the original's README; other flags follow.
ORIGINAL = """
    --max_seq_length=512 --max_qa_length=128 --do_train --do_eval
    --train_batch_size=32 --eval_batch_size=8 --learning_rate=1e-5
    --train_step=12000 --warmup_step=1000 --save_checkpoints_steps=100
"""


def passage(number, level):
    """A short passage that says twice which animal it is about."""
    names = [ANIMALS[(number + i) % len(ANIMALS)] for i in range(4)]
    return {
        "id": f"{level}{number}.txt",
        "article": f"The {names[number % 4]} sat.",
        "questions": ["Who sat?", "The _ sat."],
        "options": [names, names],
        "answers": ["ABCD"[number % 4]] * 2,
    }


def write_split(folder, split, levels, *, is_labelled=True):
    for level, numbers in levels.items():
        (folder / "RACE" / split / level).mkdir(parents=True)
        for number in numbers:
            one = passage(number, level)
            if not is_labelled:
                del one["answers"]
            path = folder / "RACE" / split / level / f"{number}.txt"
            path.write_text(json.dumps(one))


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """RACE's layout: 12, 6 and 4 questions, those of test unlabelled."""
    folder = tmp_path_factory.mktemp("data")
    write_split(folder, "train", {"middle": range(4), "high": range(2)})
    write_split(folder, "dev", {"middle": range(4, 5), "high": range(5, 7)})
    write_split(folder, "test", {"high": range(7, 9)}, is_labelled=False)
    return folder


@pytest.fixture(scope="module")
def race_flags(model_flags, data_dir):
    """Flags of a run of 4 steps, without `--output_dir`."""
    return (
        *model_flags,
        f"--data_dir={data_dir}",
        "--max_qa_length=16",
        "--learning_rate=0.001",
    )


@pytest.fixture(scope="module")
def finished_run(run_alone, race_flags, tmp_path_factory):
    """What a run of all three uses printed, and its folder; read only."""
    folder = tmp_path_factory.mktemp("race")
    flags = (*ORIGINAL.split(), *race_flags, "--do_predict")
    done = run_alone(SCRIPT, *flags, "--output_dir=run", folder=folder)
    return done, folder / "run"


@pytest.fixture
def run(run_alone, race_flags, tmp_path):
    """Runs the script with an output folder; later flags override."""
    flags = (*race_flags, "--output_dir=run")
    return functools.partial(run_alone, SCRIPT, *flags, folder=tmp_path)


def predictions_of(folder):
    text = (folder / "predictions.jsonl").read_text("utf-8")
    return list(map(json.loads, text.splitlines()))


def test_a_run_reports_all_middle_and_high(finished_run):
    done, folder = finished_run

    results = results_of(folder)
    names = {"accuracy", "accuracy_middle", "accuracy_high", "global_step"}
    assert names <= set(results)
    # 2 questions of middle, 4 of high.
    parts = 2 * results["accuracy_middle"] + 4 * results["accuracy_high"]
    assert results["accuracy"] == pytest.approx(parts / 6)
    assert f"accuracy = {results['accuracy']:.6g}" in done.stdout
    assert results["accuracy_baseline"] == 0.25
    last = done.stderr.splitlines()[-1]
    has_learnt = results["accuracy"] > 0.25
    assert ("No better than the base" in last) != has_learnt


def test_own_questions_are_predicted_and_exported_without_another_split(
    run, finished_run, ask, tmp_path
):
    _, trained = finished_run
    rows = [
        {
            "id": f"q{i}",
            "article": f"The {ANIMALS[i]} sat.",
            "question": "Who sat?",
            "options": list(ANIMALS[i : i + 3]),
        }
        for i in range(3)
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    done = run(
        # Alone, it needs no other questions.
        "--do_predict",
        "--data_dir=",
        f"--predict_file={path}",
        f"--init_checkpoint={trained}",
        "--export_dir=my/served",
    )

    predictions = predictions_of(tmp_path / "run")
    assert [row["id"] for row in predictions] == ["q0", "q1", "q2"]
    assert {len(row["probabilities"]) for row in predictions} == {3}
    found = ask(
        tmp_path / "my" / "served" / "1",
        article=[row["article"] for row in rows],
        question=[row["question"] for row in rows],
        options=[row["options"] for row in rows],
    )
    letters = ["ABCD"[choice] for choice in found["choice"]]
    assert letters == [row["prediction"] for row in predictions]
    np.testing.assert_allclose(
        found["probabilities"],
        [row["probabilities"] for row in predictions],
        atol=1e-5,
    )
    assert "\nwritten    my/served/1 (" in done.stdout


def test_questions_may_leave_a_trained_model_early(run, finished_run, tmp_path):
    _, trained = finished_run

    done = run(
        "--nodo_train",
        "--do_predict",
        f"--init_checkpoint={trained}",
        "--exit_patience=1",
    )

    # Of two layers, the second is the first at which a prediction can stay.
    assert "mean_layers = 2\n" in done.stdout
    results, full = map(results_of, (tmp_path / "run", trained))
    assert results["accuracy"] == full["accuracy"]
    found, rows = predictions_of(tmp_path / "run"), predictions_of(trained)
    for one, other in zip(found, rows, strict=True):
        assert one["prediction"] == other["prediction"]
        np.testing.assert_allclose(
            one["probabilities"], other["probabilities"], atol=1e-5
        )
