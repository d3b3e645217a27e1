"""The command of SQuAD, from its flags to its files."""

import functools
import json
import shutil

import pytest

import albert_tf
from tests.cli.conftest import ANIMALS

SCRIPT = "run_squad.py"
# As in the original's README; other flags follow.
ORIGINAL = """
    --do_lower_case --max_seq_length=384 --doc_stride=128 --max_query_length=64
    --do_train=true --do_predict=true --train_batch_size=48
    --predict_batch_size=8 --learning_rate=5e-5 --num_train_epochs=2.0
    --warmup_proportion=.1 --save_checkpoints_steps=5000 --n_best_size=20
    --max_answer_length=30 --train_feature_file=train.tf_record
    --predict_feature_file=dev.tf_record --predict_feature_left_file=left.pkl
"""
LIMITS = ("--max_answer_length=1", "--start_n_top=3", "--end_n_top=2")
VERSION_FLAGS = {"v1": [], "v2": ["--version_2_with_negative"]}


def squad_json(numbers, *, is_version_2=False, is_labelled=True):
    """Questions about paragraphs that say what an animal did."""
    paragraphs = []
    for number in numbers:
        animal = ANIMALS[number % len(ANIMALS)]
        context = f"One day the {animal} sat on the mat. It was happy there."
        row = {"id": f"q{number}", "question": "Who sat?"}
        if is_labelled:
            start = context.index(animal)
            row["answers"] = [{"text": animal, "answer_start": start}]
        if is_labelled and is_version_2 and number % 2:
            row |= {
                "question": "Who ran?",
                "answers": [],
                "is_impossible": True,
            }
        paragraphs.append({"context": context, "qas": [row]})
    return {"version": "x", "data": [{"paragraphs": paragraphs}]}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with questions of both versions, and unlabelled ones."""
    folder = tmp_path_factory.mktemp("squad")
    contents = {
        "train-v1": squad_json(range(12)),
        "dev-v1": squad_json(range(4, 10)),
        "train-v2": squad_json(range(12), is_version_2=True),
        "dev-v2": squad_json(range(4, 10), is_version_2=True),
        "asked": squad_json(range(20, 23), is_labelled=False),
    }
    for name, content in contents.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


@pytest.fixture(scope="module")
def squad_flags(model_flags):
    """Flags of a short run, without files and `--output_dir`."""
    return (
        *(flag for flag in model_flags if "_step=" not in flag),
        "--doc_stride=8",
        "--max_query_length=8",
        "--learning_rate=0.001",
    )


@pytest.fixture(scope="module")
def finished_run(run_alone, squad_flags, files, tmp_path_factory):
    """Gives what a run of `v1` or `v2` printed, and its folder; read only.

    The flags are the original's: --do_predict evaluates, too.
    """

    @functools.cache
    def run(version):
        folder = tmp_path_factory.mktemp("run_squad")
        done = run_alone(
            SCRIPT,
            *ORIGINAL.split(),
            *squad_flags,
            *LIMITS,
            f"--train_file={files / f'train-{version}.json'}",
            f"--predict_file={files / f'dev-{version}.json'}",
            "--output_dir=run",
            *VERSION_FLAGS[version],
            folder=folder,
        )
        return done, folder / "run"

    return run


def read(path):
    return json.loads(path.read_text("utf-8"))


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("v1", {"exact_match", "f1", "global_step"}),
        (
            "v2",
            {"exact", "f1", "HasAns_exact", "HasAns_f1"}
            | {"NoAns_exact", "NoAns_f1", "null_threshold", "global_step"},
        ),
    ],
)
def test_a_run_reports_the_official_scores(version, names, finished_run):
    done, folder = finished_run(version)

    results = read(folder / "eval_results.json")
    assert names <= set(results)
    assert f"f1 = {results['f1']:.6g}" in done.stdout
    assert read(folder / "predict_results.json")["f1"] == results["f1"]
    report = (folder / "report.html").read_text("utf-8")
    assert "answers without a right word" in report
    assert ("Scores by null threshold" in report) == (version == "v2")
    # The predictions are those of the evaluation, too.
    assert not (folder / "eval").exists()
    names = ["predictions", "nbest_predictions"]
    for name in names + ["null_odds"] * (version == "v2"):
        guids = [f"q{number}" for number in range(4, 10)]
        assert list(read(folder / f"{name}.json")) == guids


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_python_gives_the_same_predictions(version, finished_run, files):
    _, folder = finished_run(version)
    rows = [
        {"question": row["question"], "context": paragraph["context"]}
        for paragraph in read(files / f"dev-{version}.json")["data"][0][
            "paragraphs"
        ]
        for row in paragraph["qas"]
    ]

    answers = albert_tf.load_predictor(folder).predict(rows)

    expected = [*read(folder / "predictions.json").values()]
    assert [one["answer"] for one in answers] == expected
    for row, one in zip(rows, answers, strict=True):
        place = slice(one["start"], one["end"])
        assert one["start"] < 0 or row["context"][place] == one["answer"]


@pytest.fixture
def use(run_alone, squad_flags, files, tmp_path):
    """Runs a version in `out`; later flags override. Returns what is done."""

    def run(version, *extra):
        flags = (*squad_flags, "--output_dir=out", *VERSION_FLAGS[version])
        return run_alone(SCRIPT, *flags, *extra, folder=tmp_path)

    return run


def test_the_threshold_is_that_of_the_run_of_the_weights(
    finished_run, use, files, tmp_path
):
    _, trained = finished_run("v2")
    # Copied weights have it in their metadata.
    shutil.copytree(trained / "best", tmp_path / "weights")

    # Without the flag of version 2.0: their head says it.
    done = use(
        "v1",
        f"--predict_file={files / 'asked.json'}",
        "--init_checkpoint=weights",
        "--do_predict",
    )

    assert "null threshold is not known" not in done.stderr
    threshold = read(trained / "eval_results.json")["null_threshold"]
    folder = tmp_path / "out"
    odds, found = (
        read(folder / f"{name}.json") for name in ("null_odds", "predictions")
    )
    assert list(found) == ["q20", "q21", "q22"]
    assert all(bool(found[q]) == (odds[q] < threshold) for q in found)
    # Without answers there are no scores.
    assert not (folder / "eval_results.json").exists()
    assert not (folder / "predict_results.json").exists()


def test_a_given_threshold_is_used(finished_run, use, files, tmp_path):
    _, trained = finished_run("v2")
    odds = read(trained / "null_odds.json")
    threshold = sum(sorted(odds.values())[2:4]) / 2

    use(
        "v2",
        f"--predict_file={files / 'dev-v2.json'}",
        f"--init_checkpoint={trained}",
        "--do_predict",
        f"--null_score_diff_threshold={threshold!r}",
    )

    out = tmp_path / "out"
    assert read(out / "eval_results.json")["null_threshold"] == threshold
    predictions = read(out / "predictions.json")
    answered = {guid for guid, text in predictions.items() if text}
    assert answered <= {guid for guid in odds if odds[guid] < threshold}
    # The limits are those of the training.
    before, now = (
        [[answer["text"] for answer in answers] for answers in each.values()]
        for each in (
            read(at / "nbest_predictions.json") for at in (trained, out)
        )
    )
    assert now == before
