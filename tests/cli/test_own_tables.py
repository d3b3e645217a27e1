"""Tables of one's own, from the command line to the served answer."""

import json

import numpy as np
import pytest

SCRIPT = "run_classifier.py"
ANIMALS = ("cat", "dog", "fox", "hen", "owl", "pig", "cow", "ram")
NUM_ROWS = 48


def row(i):
    animal = ANIMALS[i % 8]
    return {
        "id": f"row-{i}",
        "text": f'The {animal}, it said:\n"here{" here" * (i % 3)}"',
        "rare": "fraud" if i % 8 == 0 else "ok",
        "tags": "|".join(
            name
            for name, has in (("fur", i % 8 < 3), ("farm", i % 8 > 2))
            if has
        ),
        "price": 1_000_000 + 100 * (i % 8),
    }


def quoted(value):
    text = str(value).replace('"', '""')
    return f'"{text}"'


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A CSV with quotes and line breaks; and 5 new rows without labels."""
    folder = tmp_path_factory.mktemp("tables")
    for name, numbers, columns in (
        ("train", range(NUM_ROWS), ("id", "text", "rare", "tags", "price")),
        ("new", range(5), ("id", "text")),
    ):
        rows = [row(i) for i in numbers]
        lines = [",".join(columns)]
        lines += [",".join(quoted(r[name]) for name in columns) for r in rows]
        (folder / f"{name}.csv").write_text("\r\n".join(lines) + "\r\n")
    return folder


@pytest.fixture(scope="module")
def finish(run_script, model_flags, tables, tmp_path_factory):
    """Trains, evaluates held-out rows, predicts and exports."""

    def start(*extra):
        folder = tmp_path_factory.mktemp("own")
        done = run_script(
            SCRIPT,
            *model_flags,
            "--task_name=custom",
            f"--train_file={tables / 'train.csv'}",
            f"--predict_file={tables / 'new.csv'}",
            "--text_columns=text",
            "--id_column=id",
            "--validation_share=0.25",
            "--do_train",
            "--do_eval",
            "--do_predict",
            "--output_dir=run",
            "--export_dir=served",
            *extra,
            folder=folder,
        )
        assert done.returncode == 0, done.stderr
        return done, folder / "run"

    return start


@pytest.fixture(scope="module")
def served(ask):
    """What the exported graph of a run answers for the new rows."""

    def answers(folder):
        texts = [row(i)["text"] for i in range(5)]
        return ask(
            folder.with_name("served") / "1", text_a=texts, text_b=[""] * 5
        )

    return answers


def results_of(folder):
    return json.loads((folder / "eval_results.json").read_text())


def table_of(path):
    lines = path.read_text().splitlines()
    return [tuple(line.split("\t")) for line in lines]


def numbers_of(folder):
    return np.array(table_of(folder / "test_results.tsv"), np.float32)


@pytest.fixture(scope="module")
def rare_run(finish):
    return finish(
        "--label_column=rare",
        "--positive_label=fraud",
        "--class_weights=balanced",
    )


def test_a_rare_class_is_scored_by_its_name(rare_run, served):
    done, folder = rare_run

    assert "Weights of the classes: 'fraud' " in done.stderr
    assert "average_precision_of_fraud = " in done.stdout
    results = results_of(folder)
    assert {"f1_of_fraud", "recall_of_ok", "f1_macro", "roc_auc"} <= {*results}
    assert "f1" not in results
    rows = table_of(folder / "eval" / "predictions.tsv")[1:]
    labels = [label for _, _, label in rows]
    # 6 of 48 rows are fraud, and 12 rows are held out.
    assert abs(len(rows) - 12) <= 1
    assert labels.count("fraud") == results["number_of_fraud"] in (1, 2)
    wanted = np.mean([guess == label for _, guess, label in rows])
    assert results["accuracy"] == pytest.approx(wanted)
    answers = served(folder)
    found = table_of(folder / "predictions.tsv")[1:]
    assert [guid for guid, _ in found] == [f"row-{i}" for i in range(5)]
    assert answers["prediction"] == [guess for _, guess in found]
    np.testing.assert_allclose(
        answers["probabilities"], numbers_of(folder), atol=1e-5
    )


@pytest.fixture(scope="module")
def tags_run(finish):
    return finish("--label_column=tags", "--multi_label", "--label_separator=|")


def test_several_labels_have_thresholds_that_are_kept(tags_run, served):
    _, folder = tags_run

    results = results_of(folder)
    assert {"f1_micro", "f1_of_fur", "number_of_farm"} <= results.keys()
    known = json.loads((folder / "best" / "metadata.json").read_text())
    assert known["labels"] == ["farm", "fur"]
    assert known["thresholds"] == [
        results["threshold_of_farm"],
        results["threshold_of_fur"],
    ]
    probabilities = numbers_of(folder)
    answers = served(folder)
    np.testing.assert_allclose(
        answers["probabilities"], probabilities, atol=1e-5
    )
    found = [guess for _, guess in table_of(folder / "predictions.tsv")[1:]]
    assert ["|".join(filter(None, own)) for own in answers["prediction"]] == (
        found
    )
    wanted = probabilities >= known["thresholds"]
    assert [guess.split("|") if guess else [] for guess in found] == [
        [name for name, has in zip(("farm", "fur"), own, strict=True) if has]
        for own in wanted
    ]


def test_a_later_prediction_needs_no_flags_of_the_labels(
    tags_run, run_script, model_flags, tables, tmp_path
):
    _, trained = tags_run

    done = run_script(
        SCRIPT,
        *model_flags,
        "--task_name=custom",
        f"--predict_file={tables / 'new.csv'}",
        "--text_columns=text",
        "--id_column=id",
        "--label_separator=|",
        "--do_predict",
        f"--init_checkpoint={trained}",
        "--output_dir=run",
        folder=tmp_path,
    )

    assert done.returncode == 0, done.stderr
    wanted = (trained / "predictions.tsv").read_text()
    assert (tmp_path / "run" / "predictions.tsv").read_text() == wanted


def test_numbers_are_learnt_and_answered_in_their_own_units(finish, served):
    _, folder = finish("--label_column=price", "--regression")

    results = results_of(folder)
    rows = table_of(folder / "eval" / "predictions.tsv")[1:]
    guesses, labels = np.array([own[1:] for own in rows], np.float64).T
    assert set(labels) <= {1_000_000.0 + 100 * i for i in range(8)}
    # A model that has hardly learnt stays near the mean.
    assert np.abs(guesses - 1_000_350).max() < 3000
    assert results["mean_squared_error"] == pytest.approx(
        np.square(guesses - labels).mean()
    )
    np.testing.assert_allclose(
        served(folder)["score"], numbers_of(folder)[:, 0], rtol=1e-6
    )
    assert f"{labels[0]:.3f}" in (folder / "report.html").read_text()
