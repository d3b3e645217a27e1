"""The command of classification, from its flags to its files.

Tables of one's own are in test_finetuning_kill_and_resume and test_own_tables.
"""

import json
import re

import numpy as np
import pytest
import sklearn.metrics

import albert_tf

SCRIPT = "run_classifier.py"
ANIMALS = ("cat", "dog", "fox", "hen", "owl", "pig", "cow", "ram")
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
    """MNLI of 12 and 6 + 4 rows, the diagnostic set of 2; STS-B of 12 and 6."""
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
    for name, size in {"train": 12, "dev": 6, "test": 3}.items():
        rows = [(i, sentence(i), sentence(2 * i)) for i in range(size)]
        header = ("index", *MNLI_TEXTS)
        if name != "test":
            rows = [(*row, f"{row[0] % 6:.3f}") for row in rows]
            header = (*header, "score")
        write_table(folder / "STS-B" / f"{name}.tsv", header, rows)
    return folder


@pytest.fixture(scope="module")
def finish(run_script, model_flags, tmp_path_factory):
    """Runs training, evaluation and prediction.

    Returns what was printed, and the folder of the run.
    """

    def start(*extra):
        folder = tmp_path_factory.mktemp("classifier")
        done = run_script(
            SCRIPT,
            *model_flags,
            "--do_train",
            "--do_eval",
            "--do_predict",
            "--output_dir=run",
            *extra,
            folder=folder,
        )
        assert done.returncode == 0, done.stderr
        return done, folder / "run"

    return start


@pytest.fixture(scope="module")
def mnli_run(finish, glue):
    return finish("--task_name=MNLI", f"--data_dir={glue}")


@pytest.fixture(scope="module")
def sts_b_run(finish, glue):
    return finish("--task_name=sts-b", f"--data_dir={glue}", "--preset=paper")


CUSTOM = ("--task_name=custom", "--text_columns=what")


@pytest.fixture
def run(run_script, model_flags, tmp_path):
    def start(*extra, before=""):
        return run_script(
            SCRIPT,
            *model_flags,
            "--output_dir=run",
            *extra,
            folder=tmp_path,
            before=before,
        )

    return start


def results_of(folder):
    return json.loads((folder / "eval_results.json").read_text())


def table_of(path):
    lines = path.read_text().splitlines()
    return [tuple(line.split("\t")) for line in lines]


def test_mnli_is_scored_on_both_sets_in_one_run(mnli_run):
    done, folder = mnli_run

    results = results_of(folder)
    for name, suffix in (("eval", ""), ("eval_mismatched", "_mismatched")):
        rows = table_of(folder / name / "predictions.tsv")
        assert rows[0] == ("index", "prediction", "label")
        _, predictions, labels = zip(*rows[1:], strict=True)
        wanted = sklearn.metrics.accuracy_score(labels, predictions)
        assert results[f"accuracy{suffix}"] == pytest.approx(wanted)
        assert f"accuracy{suffix} = {wanted:.6g}" in done.stdout
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
        results = (folder / path).with_name("test_results.tsv")
        numbers = np.array(table_of(results), np.float32)
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

    assert done.returncode == 0, done.stderr
    folder = tmp_path / "run"
    assert results_of(folder)["accuracy"] in (0, 1)
    wanted = trained / "mismatched"
    assert table_of(folder / "MNLI-m.tsv") == table_of(wanted / "MNLI-mm.tsv")
    before, after = (
        np.array(table_of(one / "test_results.tsv"), np.float32)
        for one in (wanted, folder)
    )
    np.testing.assert_allclose(after, before, atol=1e-6)


def test_sts_b_is_a_regression_with_a_clipped_submission(sts_b_run):
    _, folder = sts_b_run

    results = results_of(folder)
    assert {"pearson", "spearman", "mean_squared_error"} <= results.keys()
    rows = table_of(folder / "eval" / "predictions.tsv")[1:]
    _, predictions, labels = np.array(rows, np.float32).T
    assert labels.tolist() == [0, 1, 2, 3, 4, 5]
    raw = np.array(table_of(folder / "eval" / "test_results.tsv"), np.float32)
    np.testing.assert_array_equal(np.clip(raw[:, 0], 0, 5), predictions)
    assert results["pearson"] == pytest.approx(
        np.corrcoef(raw[:, 0], labels)[0, 1], abs=1e-6
    )
    assert results["mean_squared_error"] == pytest.approx(
        np.square(raw[:, 0] - labels).mean(), rel=1e-5
    )
    submission = table_of(folder / "STS-B.tsv")
    assert submission[0] == ("index", "prediction")
    assert all(0 <= float(row[1]) <= 5 for row in submission[1:])


def ask_of_file(ask, folder, path):
    """Asks the SavedModel of a run in the pairs of a file of GLUE."""
    header, *rows = table_of(path)
    places = [header.index(column) for column in MNLI_TEXTS]
    text_a, text_b = ([row[place] for row in rows] for place in places)
    return ask(folder.with_name("served") / "1", text_a=text_a, text_b=text_b)


@pytest.mark.slow
def test_python_gives_the_same_predictions(mnli_run, sts_b_run):
    rows = [(sentence(i), sentence(i + 3)) for i in range(3)]

    answers = albert_tf.load_predictor(mnli_run[1]).predict(rows)

    expected = table_of(mnli_run[1] / "test_results.tsv")
    probabilities = [[*one["probabilities"].values()] for one in answers]
    np.testing.assert_allclose(
        probabilities, np.array(expected, float), atol=1e-6
    )
    assert [*answers[0]["probabilities"]] == list(NLI_LABELS)
    for one in answers:
        best = max(one["probabilities"], key=one["probabilities"].get)
        assert one["prediction"] == best
    # STS-B is a regression, whose submission is clipped.
    numbers = albert_tf.load_predictor(sts_b_run[1]).predict(
        [(sentence(i), sentence(2 * i)) for i in range(3)]
    )
    rows = table_of(sts_b_run[1] / "STS-B.tsv")[1:]
    np.testing.assert_allclose(
        [one["prediction"] for one in numbers],
        [float(row[1]) for row in rows],
        atol=1e-5,
    )


def test_the_best_of_several_seeds_is_exported(finish, glue, ask):
    _, folder = finish(
        "--task_name=mnli",
        f"--data_dir={glue}",
        "--num_seeds=2",
        "--export_dir=served",
    )

    assert results_of(folder)["num_seeds"] == 2
    texts = glue / "MNLI" / "test_matched.tsv"
    found = ask_of_file(ask, folder, texts)
    wanted = np.array(table_of(folder / "test_results.tsv"), np.float32)
    np.testing.assert_allclose(found["probabilities"], wanted, atol=1e-5)


MNLI = ("--task_name=mnli", "--do_eval")


# `tests/tasks/classification` has the other errors of flags and files.
@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (("--do_eval",), "`task_name` must be one of"),
        ((*MNLI, "--do_train", "--data_dir=none"), "train.tsv"),
        ((*CUSTOM, "--do_eval", "--preset=paper"), "no settings for the task"),
        ((*CUSTOM, "--do_predict"), "There are no trained weights"),
    ],
)
def test_flags_that_do_not_fit_are_one_line(extra, words, run):
    done = run(*extra)

    assert re.search(words, done.error)
    assert done.stderr.count("\n") == 1
