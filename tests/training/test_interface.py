"""Fine-tuning and pretraining in Python: what the commands do."""

import json
import math
import os
import shutil

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.export import saved_model
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.training import flag_values, interface, loop
from albert_tf.training.run_config import FinetuningConfig
from tests import tiny
from tests.exported_models import write_checkpoint

WORDS = ("cat", "dog", "fox", "hen")
ROWS = [
    {"text": f"the {WORDS[i % 4]} is {i}", "kind": "ab"[i % 4 > 1], "n": i}
    for i in range(40)
]


class DataFrame:
    """Stands for that of pandas."""

    columns = ("text", "kind", "n")

    def to_dict(self, orient):
        assert orient == "records"
        return [row | {"n": np.int64(row["n"])} for row in ROWS]


class Failing(albert_tf.Callback):
    def on_begin(self):
        raise ValueError("This callback was called.")


@pytest.fixture
def start(tmp_path, tiny_spm_model, monkeypatch):
    """A checkpoint to start from, and settings of a short run."""
    config = tiny.config(vocab_size=300, max_position_embeddings=16)
    (tmp_path / "base").mkdir()
    write_checkpoint(tmp_path / "base", albert_tf.AlbertModel(config))
    shutil.copy(tiny_spm_model, tmp_path / "base")
    monkeypatch.chdir(tmp_path)
    return {
        "init_checkpoint": tmp_path / "base",
        "num_train_steps": 4,
        "train_batch_size": 8,
        "deterministic": True,
    }


TABLE = {"text_columns": ["text"], "label_column": "kind"}


def results(folder):
    return json.loads((folder / "eval_results.json").read_text())


def test_a_run_from_a_config_with_new_tokens_goes_on(tmp_path, tiny_spm_model):
    config = tiny.config(vocab_size=300, max_position_embeddings=16)
    config.to_json_file(tmp_path / "config.json")
    given = TABLE | {
        "train_examples": ROWS,
        "albert_config_file": tmp_path / "config.json",
        "spm_model_file": tiny_spm_model,
        "new_tokens": "fox,[E1]",
        "output_dir": tmp_path / "run",
        "num_warmup_steps": 0,
        "train_batch_size": 8,
    }

    albert_tf.finetune("custom", num_train_steps=1, **given)
    albert_tf.finetune("custom", num_train_steps=2, **given)

    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["step"] == 2


def test_a_table_is_fine_tuned_from_a_file_as_from_memory(
    start, tmp_path, monkeypatch
):
    lines = "".join(f"{json.dumps(row)}\n" for row in ROWS)
    (tmp_path / "rows.jsonl").write_text(lines)
    given = start | TABLE | {"validation_share": 0.25}

    of_file = albert_tf.finetune(
        "custom", train_file="rows.jsonl", output_dir="file", **given
    )
    of_frame = albert_tf.finetune(
        "custom", train_examples=DataFrame(), output_dir="frame", **given
    )

    assert of_file.scores == of_frame.scores
    assert of_file.scores.step == 4
    assert 0 < of_file.baselines["accuracy"] < 1
    assert results(tmp_path / "file") == results(tmp_path / "frame")
    monkeypatch.chdir(tmp_path / "base")
    answer = of_frame.predictor.predict("the cat is here")
    assert answer["prediction"] in ("a", "b")
    assert "--train_file=rows.jsonl\n" in (
        tmp_path / "file" / "flags.txt"
    ).read_text("utf-8")


def predictions(folder):
    lines = (folder / "eval" / "predictions.tsv").read_text().splitlines()
    return [line.split("\t") for line in lines[1:]]


def test_every_row_is_predicted_by_a_run_that_has_not_seen_it(
    start, tmp_path, caplog
):
    rows = [row | {"id": f"r{i * 7 % 40}"} for i, row in enumerate(ROWS)]
    rows.append(rows[0] | {"id": "again"})
    given = start | TABLE | {"num_folds": 2, "id_column": "id"}

    result = albert_tf.finetune(
        "custom", train_examples=rows, output_dir="run", **given
    )

    # Of all rows together, whatever each fold has logged.
    assert caplog.messages[-2].startswith(
        ("No better than the baseline: accuracy", "Only 41 examples were")
    )
    assert "etter than TF-IDF" in caplog.messages[-1]
    assert result.scores.simple["accuracy"] > 0
    found = predictions(tmp_path / "run")
    assert [row[0] for row in found] == [row["id"] for row in rows]
    assert [row[2] for row in found] == [row["kind"] for row in rows]
    folds = [predictions(tmp_path / "run" / f"fold-{i}") for i in range(2)]
    assert sorted(sum(folds, [])) == sorted(found)
    for fold in folds:
        ids, kinds = [row[0] for row in fold], [row[2] for row in fold]
        assert ("again" in ids) == ("r0" in ids)
        assert kinds.count("a") - ("again" in ids) == kinds.count("b") == 10
    assert [row["id"] for row in result.predictions] == [r[0] for r in found]
    assert {x["run"] for x in result.history} == {"fold-0", "fold-1"}
    assert ">fold-0 loss<" in str(result.plot())
    each = [results(tmp_path / "run" / f"fold-{i}") for i in range(2)]
    values = [one["accuracy"] for one in each]
    scores = result.scores
    right = [row[1] == row[2] for row in found]
    assert scores["accuracy"] == pytest.approx(np.mean(right))
    assert scores["accuracy_mean"] == pytest.approx(np.mean(values))
    assert scores["accuracy_std"] == pytest.approx(np.std(values, ddof=1))
    assert result.baselines["accuracy"] == pytest.approx(21 / 41)
    written = results(tmp_path / "run")
    assert written.pop("evaluated")["folds"] == 2
    assert written == scores.flat()
    assert scores["accuracy_interval_high"] >= scores["accuracy"]
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "41 examples of rows in memory, in 2 parts" in page
    assert "fold 1" in page
    card = (tmp_path / "run" / "README.md").read_text("utf-8")
    assert "2 models, in `fold-*/`" in card
    assert f"| accuracy | {scores['accuracy']:.4g} |" in card
    table = (tmp_path / "run" / "label_issues.tsv").read_text("utf-8")
    assert table.startswith("id\tlabel\tprobability\t")
    with pytest.raises(ValueError, match="belongs to another run"):
        albert_tf.finetune(
            "custom",
            train_examples=rows,
            output_dir="run",
            **given | {"num_folds": 1},
        )


def test_texts_are_ranked_among_vectors_of_their_own_fold(start, tmp_path):
    rows = [{"a": f"cat {i}", "b": f"cat {20 - i}"} for i in range(9)]
    # Other characters, and in another fold, but the same tokens.
    rows.append({"a": "CAT 2", "b": "cat 18"})

    result = albert_tf.finetune(
        "similarity",
        train_examples=rows,
        output_dir="run",
        text_columns=["a", "b"],
        num_folds=2,
        **start,
    )

    each = [results(tmp_path / "run" / f"fold-{i}") for i in range(2)]
    # One for each row, whatever the vectors of other folds are.
    for name in ("mrr_at_10", "word_overlap_baseline"):
        mean = np.average([one[name] for one in each], weights=[5, 5])
        found = results(tmp_path / "run")[name]
        assert found == pytest.approx(mean)
    assert (
        result.scores["mrr_at_10_interval_high"] >= result.scores["mrr_at_10"]
    )
    for fold, caution in enumerate(result.evaluation["cautions"]):
        assert caution.startswith(f"Fold {fold}: 1 of the 5 records to evalua")
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "Fold 1: 1 of the 5 records to evaluate are also trained on" in page


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_folds": 41}, "there are fewer texts"),
        ({"validation_share": 0.1}, "neither --num_seeds nor --do_predict"),
        ({"eval_file": "a.tsv"}, "nor --do_predict, .*, --eval_file"),
        ({"num_seeds": 2}, "neither --num_seeds nor --do_predict"),
        ({"eval_examples": [{"text": "a"}]}, "neither --num_seeds nor"),
        ({"do_train": False, "do_eval": True}, "Pass --do_train, and neither"),
    ],
)
def test_folds_that_cannot_be_made(values, message, start):
    given = start | TABLE | {"num_folds": 2, "output_dir": "run"} | values

    with pytest.raises(ValueError, match=message):
        albert_tf.finetune("custom", train_examples=ROWS, **given)


def test_rows_are_evaluated_and_predicted(start, tmp_path):
    first = albert_tf.finetune(
        "custom",
        train_examples=iter(ROWS),
        eval_examples=ROWS[:8],
        predict_examples=[{"text": "a dog"}],
        output_dir="run",
        **start,
        **TABLE,
    )

    again = albert_tf.finetune(
        "custom",
        eval_examples=ROWS[:4],
        output_dir="run",
        do_train=False,
        **TABLE,
    )
    predictions = (tmp_path / "run" / "predictions.tsv").read_text()
    assert len(predictions.splitlines()) == 2
    assert again.scores.step == first.scores.step


@pytest.mark.parametrize(
    ("task_name", "given", "message"),
    [
        ("quora", {}, "`task_name` must be one of cola"),
        ("custom", {"train_fiel": "x"}, "Did you mean 'train_file'"),
        ("custom", {"learning_rate": "1e-5"}, "must be of type float"),
        ("custom", {"num_train_steps": True}, "must be of type int"),
        # Weights by label have the order of `labels`.
        ("custom", {"class_weights": {1: 2.0}}, "must be of type tuple"),
        ("custom", {"train_file": [{"a": "b"}] * 9}, r", \.\.\.\]"),
        ("sst-2", {"output_dir": "run"}, "--albert_config_file or"),
        (
            "custom",
            {"train_examples": [*ROWS, ROWS[0] | {"text": math.nan}]},
            "'text' must be a string or a number. Received: nan",
        ),
        ("custom", {"train_examples": ["a", "b"]}, "must be rows: dicts"),
        (
            "custom",
            {"train_examples": ROWS, "callbacks": [print]},
            "subclasses of albert_tf.Callback. Received: <built-in",
        ),
        # A generator can be read only once.
        (
            "custom",
            {"train_examples": ROWS, "callbacks": (f() for f in [Failing])},
            "This callback was called",
        ),
    ],
)
def test_what_cannot_be_used_is_named(task_name, given, message, start):
    if "output_dir" not in given and "train_examples" in given:
        given = start | TABLE | {"output_dir": "run"} | given
        given |= {"validation_share": 0.5}

    with pytest.raises(ValueError, match=message):
        albert_tf.finetune(task_name, **given)


def test_the_same_call_resumes_a_run_that_a_callback_has_stopped(start):
    class Stopping(albert_tf.Callback):
        def on_begin(self):
            if not self.run.is_resumed:
                self.stop()

    given = start | TABLE | {"train_examples": ROWS, "output_dir": "run"}
    given |= {"validation_share": 0.5, "callbacks": [Stopping()]}

    with pytest.raises(KeyboardInterrupt):
        albert_tf.finetune("custom", **given)
    result = albert_tf.finetune("custom", **given)

    assert result.scores.step == 4


def test_of_several_seeds_the_best_alone_is_exported(start, monkeypatch):
    exported = []
    monkeypatch.setattr(saved_model, "export", exported.append)
    given = start | TABLE | {"train_examples": ROWS, "validation_share": 0.5}
    given |= {"num_seeds": 2, "num_train_steps": 1, "output_dir": "run"}

    result = albert_tf.finetune("custom", export_dir="served", **given)

    assert result.weights == os.path.abspath("run/best")
    assert [os.path.abspath(one.init_checkpoint) for one in exported] == [
        result.weights
    ]


def test_lists_of_numbers_are_runs_of_their_own(start, tmp_path):
    given = start | TABLE | {"train_examples": ROWS, "validation_share": 0.5}
    lists = {"learning_rate": [1e-2, 1e-5, 1e30], "random_seed": [3, 3]}

    alone = albert_tf.finetune(
        "custom", learning_rate=1e-5, random_seed=3, output_dir="one", **given
    )
    best = albert_tf.finetune("custom", **lists, output_dir="grid", **given)

    # The third diverges, and costs no other its result.
    names = [f"learning_rate={x}_random_seed=3" for x in ("0.01", "1e-5")]
    folders = [tmp_path / "grid" / name for name in names]
    assert [(f / "eval_results.json").exists() for f in folders] == [True] * 2
    assert results(folders[1]) == results(tmp_path / "one")
    weights = "best/model.ckpt.data-00000-of-00001"
    same = (folders[1] / weights).read_bytes()
    assert same == (tmp_path / "one" / weights).read_bytes()
    scores = [results(folder) for folder in folders]
    expected = max(
        (0, 1), key=lambda i: (scores[i]["accuracy"], -scores[i]["loss"])
    )
    assert best.output_dir == str(folders[expected])
    assert best.scores["loss"] == scores[expected]["loss"]
    assert alone.comparison == ()
    page = (tmp_path / "grid" / "report.html").read_text()
    assert page.count("have outputs that are not numbers") == 1
    assert all(name in page for name in names)


def test_runs_of_a_list_that_all_diverge_or_are_stopped(start, monkeypatch):
    given = start | TABLE | {"train_examples": ROWS, "validation_share": 0.25}
    given |= {"learning_rate": [1.0, 2.0], "output_dir": "grid"}

    def diverge(plan, callbacks):
        raise loop.TrainingDiverged(f"{plan.config.learning_rate} is high.")

    monkeypatch.setattr(interface, "run_finetuning", diverge)
    with pytest.raises(
        ValueError, match="None of the 2 runs gives a result. The first: 1.0"
    ):
        albert_tf.finetune("custom", **given)
    monkeypatch.setattr(interface, "run_finetuning", lambda *_: None)
    with pytest.raises(KeyboardInterrupt, match="The same call resumes it"):
        albert_tf.finetune("custom", **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"learning_rate": [1e-3, "x"]}, "must be of type float. .*'x'"),
        ({"learning_rate": []}, "must be of type float"),
        ({"learning_rate": [1e-3, -1.0]}, "learning_rate=-1.0"),
        ({"num_folds": [2, 3]}, "`num_folds` must be of type int"),
        # Each would be scored on other rows.
        ({"validation_share": [0.2, 0.3]}, "must be of type float"),
        ({"do_eval": False}, "with --do_train and --do_eval"),
        ({"do_train": False}, "with --do_train and --do_eval"),
        ({"export_dir": "x"}, "--export_dir later"),
        ({"do_predict": True}, "Pass --do_predict"),
        ({"num_folds": 2, "validation_share": None}, "without --num_folds"),
        ({"strategy": "multi_worker", "cluster": "slurm"}, "on one machine"),
        ({"output_dir": None}, "--output_dir must be given"),
        ({"output_dir": "base"}, "'base' holds other files"),
    ],
)
def test_lists_that_cannot_be(given, message, start, tmp_path):
    usual = {"learning_rate": [1e-3, 1e-2], "validation_share": 0.25}
    usual |= {"output_dir": "grid", "predict_examples": None}
    if given.get("do_predict"):
        usual["predict_examples"] = ROWS

    with pytest.raises(ValueError, match=message):
        albert_tf.finetune(
            "custom", train_examples=ROWS, **start | TABLE | usual | given
        )

    assert not (tmp_path / "grid").exists()


def test_a_result_is_a_mapping_of_scores_and_a_short_table():
    scores = Scores(
        entries=(
            Score("accuracy", 0.97),
            Score.of_label("f1", "ham", 0.5),
            Score.baseline("accuracy", 0.55),
            Score("accuracy_tfidf", 0.94, Role.SIMPLE, "accuracy"),
            Score("accuracy_interval_low", 0.9, Role.INTERVAL, "accuracy"),
            Score("accuracy_interval_high", 0.99, Role.INTERVAL, "accuracy"),
            Score("loss", 0.1, Role.LOSS),
        ),
        step=30,
    )

    result = albert_tf.RunResult(scores=scores, output_dir="a<b")

    assert dict(result.scores)["f1_of_ham"] == 0.5
    assert [*result.scores][:2] == ["accuracy", "f1_of_ham"]
    accuracy = ("accuracy", 0.97, 0.55, 0.94, 0.9, 0.99)
    rows = [tuple(row.values()) for row in result.table()]
    assert rows == [accuracy, ("loss", 0.1, None, None, None, None)]
    text = "RunResult(Scores(accuracy=0.97, loss=0.1), output_dir='a<b')"
    assert repr(result) == text
    assert str(result).splitlines() == [
        "score     value  baseline  simple  low  high",
        "accuracy  0.97   0.55      0.94    0.9  0.99",
        "loss      0.1",
        "a<b",
    ]
    page = result._repr_html_()
    cells = ("0.97", "0.55", "0.94", "0.9", "0.99")
    assert "".join(f"<td>{cell}</td>" for cell in cells) in page
    assert "<td>0.1</td><td></td>" in page and "a&lt;b" in page


def test_a_result_has_its_predictions_errors_and_log(start):
    result = albert_tf.finetune(
        "custom",
        output_dir="run",
        train_examples=ROWS,
        validation_share=0.5,
        log_steps=2,
        **start | TABLE,
    )

    assert len(result.predictions) == 20
    for row in result.predictions:
        assert row["label"] == ROWS[int(row["id"])]["kind"]
        assert row["text_a"] == ROWS[int(row["id"])]["text"]
    wrong = [r for r in result.predictions if r["prediction"] != r["label"]]
    shares = [row["label_probability"] for row in result.errors]
    assert shares == sorted(row["label_probability"] for row in wrong)
    row = result.predictions[0]
    found = result.predictor.predict(row["text_a"])["probabilities"]
    for name, label in (
        ("probability", row["prediction"]),
        ("label_probability", row["label"]),
    ):
        assert row[name] == pytest.approx(found[label], rel=1e-4)
    assert [x["step"] for x in result.history if "loss" in x] == [2, 4]
    assert result.plot()._repr_html_().count("<svg") == 2


def test_a_later_evaluation_keeps_what_the_training_chose(start, tmp_path):
    table = TABLE | {"eval_examples": ROWS[::3], "output_dir": tmp_path / "run"}
    trained = albert_tf.finetune(
        "custom",
        **start | table | {"train_examples": ROWS, "decide": "recall:0.8"},
    )
    known = Metadata.read(trained.weights)
    others = [row for row in ROWS if row["n"] % 5 == 0]

    for changes in ({"calibrate": False}, {"exit_patience": 1}):
        again = albert_tf.finetune(
            "custom",
            **table | {"eval_examples": others, "do_train": False} | changes,
        )
        found = Metadata.read(again.weights)
        assert found.thresholds == known.thresholds
        assert found.temperature == known.temperature
        assert found.evaluation["examples"] == len(others)


def test_a_start_does_not_train_on_rows_that_are_evaluated_later(
    start, tmp_path, caplog
):
    first = albert_tf.finetune(
        "custom",
        **start | TABLE | {"train_examples": ROWS, "output_dir": "one"},
        validation_share=0.3,
    )
    second = TABLE | {
        "init_checkpoint": first.weights,
        "validation_share": 0.3,
        "train_examples": ROWS[::-1],
        "num_train_steps": 4,
        "train_batch_size": 8,
    }

    with pytest.raises(ValueError, match="have seen rows to evaluate"):
        albert_tf.finetune(
            "custom", **second, validation_seed=1, output_dir="two"
        )
    found = albert_tf.finetune("custom", **second, output_dir="two")

    settings = [Metadata.read(one.weights).settings for one in (first, found)]
    assert settings[0]["validation"] == settings[1]["validation"]
    # Another table divides its rows anew.
    others = [row | {"text": row["text"] + " now"} for row in ROWS]
    second |= {"train_examples": others, "validation_seed": 1}
    albert_tf.finetune("custom", **second, output_dir="three")
    # A start that held out nothing may have seen any row.
    table = TABLE | {"train_examples": ROWS, "eval_examples": ROWS[::3]}
    plain = albert_tf.finetune("custom", **start | table, output_dir="four")
    assert "has seen the rows to evaluate" not in caplog.text
    second |= {"init_checkpoint": plain.weights}
    albert_tf.finetune("custom", **second, output_dir="five")
    assert "has seen the rows to evaluate" in caplog.text


def test_numbers_of_numpy_are_settings():
    given = {"train_batch_size": np.int64(8), "learning_rate": np.float32(0.5)}

    values = flag_values.checked(given, [FinetuningConfig])

    assert values == {"train_batch_size": 8, "learning_rate": 0.5}
    assert {*map(type, values.values())} == {int, float}
