"""docs/own_data.md: its commands run as printed, on a small table.

So this also tests tables of one's own from the command line to the served
answer.
"""

import json
import re
import shlex
import shutil

import numpy as np
import pytest

from albert_tf.checkpoints import tf1, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from tests.cli.conftest import (
    ANIMALS,
    CONFIG,
    ROOT,
    numbers_of,
    results_of,
    table_of,
)

# The commands take a minute or two.
pytestmark = pytest.mark.slow
PAGE = ROOT / "docs" / "own_data.md"
NUM_ROWS, NUM_NEW = 120, 5


def row(i):
    animal = ANIMALS[i % 8]
    return {
        "id": f"row-{i}",
        "text": f'The {animal}, it said.\n"here{" here" * (i % 15)}"',
        "kind": "fraud" if i % 8 == 0 else "ok",
        "topics": "|".join(
            name
            for name, has in (("fur", i % 8 < 3), ("farm", i % 8 > 2))
            if has
        ),
        "minutes": 1_000_000 + 100 * (i % 8),
    }


def quoted(value):
    text = str(value).replace('"', '""')
    return f'"{text}"'


def write_table(path, numbers, columns):
    lines = [",".join(columns)]
    for i in numbers:
        lines.append(",".join(quoted(row(i)[name]) for name in columns))
    path.write_text("\r\n".join(lines) + "\r\n")


def write_encoder(folder, vocabulary):
    """Writes random weights as a released checkpoint."""
    folder.mkdir()
    config = AlbertConfig(**CONFIG | {"max_position_embeddings": 128})
    by_name = variable_names.variables_by_tf1_name(AlbertModel(config).weights)
    arrays = {name: weight.numpy() for name, weight in by_name.items()}
    tf1.write_ours(str(folder), Checkpoint(arrays=arrays, config=config))
    shutil.copy(vocabulary, folder / "30k-clean.model")


@pytest.fixture(scope="module")
def ran(run_alone, tiny_spm_model, tmp_path_factory):
    """The folder of all runs of the page, and what they printed by name."""
    folder = tmp_path_factory.mktemp("own")
    columns = [*row(0)]
    write_table(folder / "mails.csv", range(NUM_ROWS), columns)
    write_table(folder / "others.csv", range(NUM_ROWS, 2 * NUM_ROWS), columns)
    write_table(folder / "new.csv", range(NUM_NEW), columns[:2])
    write_encoder(folder / "albert_base", tiny_spm_model)
    page = PAGE.read_text()
    questions = re.findall(r'^\{"id": .*"context": .*\}$', page, re.M)
    for name in ("questions.jsonl", "new.jsonl"):
        (folder / name).write_text("\n".join(questions))
    commands = re.findall(r"^\$ python (.*?[^\\])$", page, re.M | re.S)
    # That of long texts starts from a run of another page.
    commands = [one for one in commands if "=long_run" not in one]
    printed = {}
    for command in commands:
        script, *flags = shlex.split(command.replace("\\\n", " "))
        done = run_alone(script, *flags, folder=folder)
        printed.setdefault(flags[-1], done)
    assert len(commands) == 7
    return folder, printed


@pytest.fixture(scope="module")
def served(ran, ask):
    """What the exported graph of a run answers for the new rows."""

    def answers(name):
        texts = [row(i)["text"] for i in range(NUM_NEW)]
        return ask(
            ran[0] / "served" / name / "1",
            text_a=texts,
            text_b=[""] * NUM_NEW,
        )

    return answers


def test_a_rare_class_is_scored_by_its_name(ran):
    folder, printed = ran
    done = printed["--output_dir=fraud"]

    assert "average_precision_of_fraud = " in done.stdout
    results = results_of(folder / "fraud")
    assert {"f1_of_fraud", "recall_of_ok", "f1_macro", "roc_auc"} <= {*results}
    assert "f1" not in results
    rows = table_of(folder / "fraud" / "eval" / "predictions.tsv")[1:]
    guesses, labels = np.array([one[1:3] for one in rows]).T
    # The page evaluates again, on other rows: 15 of 120 are fraud.
    assert len(rows) == NUM_ROWS
    assert (labels == "fraud").sum() == results["number_of_fraud"] == 15
    wanted = np.mean(guesses == labels)
    assert results["accuracy"] == pytest.approx(wanted)


def test_one_label_is_served_as_it_is_predicted(ran, served):
    folder = ran[0] / "fraud"

    answers = served("fraud")

    found = table_of(folder / "predictions.tsv")[1:]
    assert [guid for guid, _ in found] == [f"row-{i}" for i in range(NUM_NEW)]
    assert answers["prediction"] == [guess for _, guess in found]
    np.testing.assert_allclose(
        answers["probabilities"],
        numbers_of(folder / "test_results.tsv"),
        atol=1e-5,
    )


def test_several_labels_have_thresholds_that_are_kept(ran, served):
    folder = ran[0] / "topics"

    results = results_of(folder)
    assert {"f1_micro", "f1_of_fur", "number_of_farm"} <= results.keys()
    known = json.loads((folder / "best" / "metadata.json").read_text())
    assert known["labels"] == ["farm", "fur"]
    assert known["thresholds"] == [
        results["threshold_of_farm"],
        results["threshold_of_fur"],
    ]
    probabilities = numbers_of(folder / "test_results.tsv")
    answers = served("topics")
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


def test_numbers_are_learnt_and_answered_in_their_own_units(ran, served):
    folder = ran[0] / "minutes"

    results = results_of(folder)
    rows = table_of(folder / "eval" / "predictions.tsv")[1:]
    guesses, labels = np.array([one[1:3] for one in rows], np.float64).T
    assert set(labels) <= {1_000_000.0 + 100 * i for i in range(8)}
    # A model that has hardly learnt stays near the mean.
    assert np.abs(guesses - 1_000_350).max() < 3000
    assert results["mean_squared_error"] == pytest.approx(
        np.square(guesses - labels).mean()
    )
    np.testing.assert_allclose(
        served("minutes")["score"],
        numbers_of(folder / "test_results.tsv")[:, 0],
        rtol=1e-6,
    )
    assert f"{labels[0]:.3f}" in (folder / "report.html").read_text()
