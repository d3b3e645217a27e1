"""The command of classification, from its flags to its files.

Tables of one's own are in test_finetuning_kill_and_resume and test_own_tables.
"""

import functools
import re

import numpy as np
import pytest
import sklearn.metrics

from tests.cli.conftest import ANIMALS, numbers_of, results_of, table_of

SCRIPT = "run_classifier.py"
# As in the original's README; other flags follow.
ORIGINAL = """
    --do_train --do_eval --do_predict --do_lower_case --max_seq_length=128
    --optimizer=adamw --task_name=MNLI --warmup_step=1000 --learning_rate=3e-5
    --train_step=10000 --save_checkpoints_steps=100 --train_batch_size=128
"""
NLI_LABELS = ("contradiction", "entailment", "neutral")
MNLI_TEXTS = ("sentence1", "sentence2")


def write_table(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(map(str, row)) for row in (header, *rows)]
    path.write_text("".join(f"{line}\n" for line in lines))


def sentence(i):
    return f"The {ANIMALS[i % 8]} sat by the {ANIMALS[i // 8 % 8]}."


@pytest.fixture(scope="module")
def glue(tmp_path_factory):
    """MNLI of 12 and 6 + 4 rows, and the diagnostic set of 2."""
    folder = tmp_path_factory.mktemp("glue")
    sizes = {
        "train": 12,
        "dev_matched": 6,
        "dev_mismatched": 4,
        "test_matched": 3,
        "test_mismatched": 2,
    }
    for name, size in sizes.items():
        rows = [(i, sentence(i), sentence(i + 3)) for i in range(size)]
        header = ("index", *MNLI_TEXTS)
        if not name.startswith("test"):
            rows = [(*row, NLI_LABELS[row[0] % 3]) for row in rows]
            header = (*header, "gold_label")
        write_table(folder / "MNLI" / f"{name}.tsv", header, rows)
    rows = [(i, sentence(i), sentence(i)) for i in range(2)]
    write_table(
        folder / "diagnostic" / "diagnostic.tsv", ("index", *MNLI_TEXTS), rows
    )
    return folder


@pytest.fixture(scope="module")
def mnli_run(run_alone, model_flags, glue, tmp_path_factory):
    """What training, evaluation and prediction printed, and the folder.

    The SavedModel lies beside the folder, in `served/1`.
    """
    folder = tmp_path_factory.mktemp("classifier")
    flags = (*ORIGINAL.split(), *model_flags, f"--data_dir={glue}")
    flags += ("--output_dir=run", "--export_dir=served")
    return run_alone(SCRIPT, *flags, folder=folder), folder / "run"


@pytest.fixture
def run(run_alone, model_flags, tmp_path):
    flags = (*model_flags, "--output_dir=run")
    return functools.partial(run_alone, SCRIPT, *flags, folder=tmp_path)


def test_mnli_is_scored_on_both_sets_in_one_run(mnli_run):
    done, folder = mnli_run

    results = results_of(folder)
    for name, suffix in (("eval", ""), ("eval_mismatched", "_mismatched")):
        rows = table_of(folder / name / "predictions.tsv")
        texts = ("text_a", "text_b")
        assert rows[0] == ("index", "prediction", "label", *texts)
        _, predictions, labels, *_ = zip(*rows[1:], strict=True)
        wanted = sklearn.metrics.accuracy_score(labels, predictions)
        assert results[f"accuracy{suffix}"] == pytest.approx(wanted)
        assert f"accuracy{suffix} = {wanted:.6g}" in done.stdout
    low, high = (results[f"accuracy_interval_{x}"] for x in ("low", "high"))
    assert low <= results["accuracy"] <= high
    assert results["temperature"] == results["temperature_mismatched"]
    expected = r' next: python -m albert_tf.predict \S+ "TEXT" "TEXT" '
    assert re.search(expected, done.stderr), done.stderr
    # The better of the two evaluations.
    assert results["global_step"] in (2, 4)


def test_mnli_leaves_the_three_submissions_of_the_leaderboard(mnli_run):
    _, folder = mnli_run

    for path, num_rows in (
        ("MNLI-m.tsv", 3),
        ("mismatched/MNLI-mm.tsv", 2),
        ("ax/AX.tsv", 2),
    ):
        rows = table_of(folder / path)
        assert rows[0] == ("index", "prediction")
        assert [row[0] for row in rows[1:]] == [str(i) for i in range(num_rows)]
        assert {row[1] for row in rows[1:]} <= set(NLI_LABELS)
        numbers = numbers_of((folder / path).with_name("test_results.tsv"))
        assert numbers.shape == (num_rows, 3)
        np.testing.assert_allclose(numbers.sum(axis=1), 1, atol=1e-6)
        places = [NLI_LABELS.index(row[1]) for row in rows[1:]]
        np.testing.assert_array_equal(numbers.argmax(axis=1), places)


def test_other_files_can_be_evaluated_and_predicted_without_training(
    run, mnli_run, glue, tmp_path
):
    _, trained = mnli_run
    rows = table_of(glue / "MNLI" / "dev_matched.tsv")
    write_table(tmp_path / "one_row.tsv", rows[0], rows[1:2])

    done = run(
        "--task_name=mnli",
        "--do_eval",
        "--eval_file=one_row.tsv",
        "--do_predict",
        f"--predict_file={glue / 'MNLI' / 'test_mismatched.tsv'}",
        f"--init_checkpoint={trained}",
    )

    assert f"next: python -m albert_tf.predict {trained}" in done.stderr
    folder = tmp_path / "run"
    assert results_of(folder)["accuracy"] in (0, 1)
    wanted = trained / "mismatched"
    assert table_of(folder / "MNLI-m.tsv") == table_of(wanted / "MNLI-mm.tsv")
    before, after = (
        numbers_of(place / "test_results.tsv") for place in (wanted, folder)
    )
    np.testing.assert_allclose(after, before, atol=1e-6)


def test_the_export_gives_the_labels_of_the_predictions(mnli_run, glue, ask):
    done, folder = mnli_run

    for name, path in (
        ("test_matched", "MNLI-m.tsv"),
        ("test_mismatched", "mismatched/MNLI-mm.tsv"),
    ):
        header, *rows = table_of(glue / "MNLI" / f"{name}.tsv")
        places = [header.index(column) for column in MNLI_TEXTS]
        text_a, text_b = ([row[place] for row in rows] for place in places)

        served = folder.with_name("served") / "1"
        found = ask(served, text_a=text_a, text_b=text_b)

        rows = table_of(folder / path)[1:]
        assert found["prediction"] == [row[1] for row in rows]
        wanted = numbers_of((folder / path).with_name("test_results.tsv"))
        np.testing.assert_allclose(found["probabilities"], wanted, atol=1e-5)
    assert re.search(r"\nwritten    served/1 \(\d+\.\d\d MB\)\n", done.stdout)


def test_several_numbers_are_several_runs_and_the_best_is_named(
    run_alone, model_flags, table_flags, tmp_path
):
    flags = (*table_flags, *model_flags, "--nodo_predict")
    lists = ("--train_step=2,4", "--learning_rate=1e-3")

    done = run_alone(
        SCRIPT, *flags, *lists, "--output_dir=a b", folder=tmp_path
    )

    names = [f"num_train_steps={number}" for number in (2, 4)]
    found = {name: results_of(tmp_path / "a b" / name) for name in names}
    best = max(found, key=lambda n: (found[n]["accuracy"], -found[n]["loss"]))
    lines = done.stdout.splitlines()
    assert lines[0] == (
        f"Runs of {tmp_path}/a b, and McNemar's test against the first:"
    )
    # A run is a column, the best one first.
    columns = [name for name in lines[1].split() if name in names]
    scores = next(x.split() for x in lines if x.startswith("accuracy "))
    assert columns[0] == best
    assert scores[1] == f"{found[best]['accuracy']:.4g}"
    assert f"The best: {tmp_path}/a b/{best}" in lines
    assert f"loss = {found[best]['loss']:.6g}" in lines
    assert f"next: python -m albert_tf.predict '{tmp_path}/a b/{best}'" in (
        done.stderr
    )
    assert (tmp_path / "a b" / "report.html").exists()
