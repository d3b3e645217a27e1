"""The report of a fine-tuning run, from numbers that are made up."""

import dataclasses
import json

import numpy as np
import pytest

from albert_tf.data import feature_cache
from albert_tf.training import finetune_report, report
from albert_tf.training.records import RecordSet
from albert_tf.training.run_config import (
    ExampleSet,
    FinetuningConfig,
    FinetuningJob,
    TrainingConfig,
)


def write_log(folder, loss, score):
    folder.mkdir(parents=True)
    lines = [{"step": 5, "loss": loss}, {"step": 5, "eval_accuracy": score}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text)


@pytest.fixture
def records(word_data, sentences):
    """A function that makes records of four examples."""

    def make(data=None):
        data = data or word_data()
        examples = sentences(4)
        return RecordSet(
            name="",
            examples=examples,
            data=data,
            columns=feature_cache.collect(
                data.records(examples, is_training=False),
                data.array_specs,
                max_seq_length=16,
            ),
            key="key",
        )

    return make


@pytest.fixture
def page(records, tiny_config, word_task, settings, tmp_path):
    """A function that writes a report and returns its text."""

    def write(outputs, data=None, results=None):
        made = records(data)
        job = FinetuningJob(
            config=tiny_config(),
            training=TrainingConfig(num_train_steps=100),
            finetuning=FinetuningConfig(max_seq_length=16),
            optimizer=settings(),
            data=made.data,
            make_task=word_task,
            output_dir=str(tmp_path / "run"),
            train_set=ExampleSet(examples=made.examples),
            eval_sets=(ExampleSet(examples=made.examples),),
        )
        finetune_report.write(
            job,
            results=results or {"accuracy": 0.25},
            records=made,
            outputs=outputs,
        )
        return (tmp_path / "run" / "report.html").read_text("utf-8")

    return write


def test_a_report_shows_curves_lengths_confusions_and_errors(
    page, tmp_path, sentences, word_data
):
    write_log(tmp_path / "run", 0.7, 0.25)
    labels = np.array([example.label for example in sentences(4)])
    wrong = {"logits": np.eye(2, dtype=np.float32)[1 - labels]}

    text = page(wrong, word_data(labels=["low <ids>", "high"]))

    for words in (
        "Fine-tuning: words",
        "Training loss",
        "Evaluations",
        "Lengths of the evaluated records",
        "Labels (rows) and predictions (columns)",
        "The worst of 4 errors",
        "low &lt;ids&gt;",
        "0.2689",  # 1 / (1 + e)
    ):
        assert words in text


def test_numbers_are_shown_by_their_errors(page, tmp_path):
    write_log(tmp_path / "run", 0.7, 0.25)

    text = page({"logits": np.array([[0.5], [7.25], [0.5], [0.5]])})

    assert text.index("7.250") < text.index("0.500")
    assert "The largest errors" in text


def test_a_task_may_have_sections_of_its_own(page, tmp_path, word_data):
    write_log(tmp_path / "run", 0.7, 0.25)

    class Telling(word_data):
        def report_sections(self, examples, outputs):
            return [
                {"title": "By type", "header": ["type"], "rows": [["who"]]},
                {"title": "Threshold", "unit": "f1", "curves": {"f1": []}},
                {"title": "Counts", "unit": "n", "bars": {"yes": 1.0}},
            ]

    text = page({"start": [np.zeros(3)] * 4}, Telling())

    for title in ("By type", "Threshold", "Counts"):
        assert f"<h2>{title}</h2>" in text
    assert "errors" not in text


def test_of_several_seeds_the_headline_is_drawn_with_its_median(tmp_path):
    for seed in (1, 2, 3):
        write_log(tmp_path / f"seed-{seed}", 0.7 / seed, 0.5 * seed)
    (tmp_path / "seed-4").mkdir()  # has failed: there is no log

    losses, scores = finetune_report.curves(str(tmp_path), "accuracy")

    assert losses.curves == {"median": [(5, 0.35)]}
    assert scores.title == "Evaluations: 3 seeds and their median"
    assert scores.curves == {"median": [(5, 1.0)]}
    assert list(scores.faint_curves) == [[(5, 0.5)], [(5, 1.0)], [(5, 1.5)]]


def test_seeds_of_another_run_in_the_folder_are_not_drawn(tmp_path):
    for seed in (1, 2, 3):
        write_log(tmp_path / f"seed-{seed}", 0.7 / seed, 0.5 * seed)

    _, scores = finetune_report.curves(
        str(tmp_path), "accuracy", seeds=["1", "2"]
    )

    assert list(scores.faint_curves) == [[(5, 0.5)], [(5, 1.0)]]


def test_what_has_another_scale_is_not_drawn_among_the_scores(tmp_path):
    names = ("f1", "constant_predictions", "null_threshold")
    line = {"step": 5} | {f"eval_{name}": 1.0 for name in names}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line) + "\n")

    _, scores = finetune_report.curves(str(tmp_path), "f1")

    assert list(scores.curves) == ["f1"]


def test_seeds_have_a_row_each_and_failures_a_table_of_their_own():
    own = {"accuracy": 0.123456789, "global_step": 9, "restarts": 1}
    results = {"seeds": {"1": own}, "failed_seeds": {"2": "It stuck."}}

    seeds, failed = finetune_report.seed_tables(results)

    assert seeds.header == ("seed", "accuracy", "global_step", "restarts")
    assert seeds.rows == [("1", "0.123457", "9", "1")]
    assert failed.rows == [("2", "It stuck.")]
    assert len(finetune_report.seed_tables(results | {"failed_seeds": {}})) == 1
    assert finetune_report.seed_tables({"accuracy": 0.5}) == []


def test_the_facts_of_several_seeds_are_medians(page, tmp_path):
    write_log(tmp_path / "run" / "seed-1", 0.7, 0.25)

    text = page(
        {"logits": np.eye(2, dtype=np.float32)[[0, 1, 0, 1]]},
        results={
            "accuracy": 0.25,
            "accuracy_std": 0.1,
            "seeds": {"1": {"accuracy": 0.25}},
        },
    )

    assert "<td>accuracy (median)</td><td>0.25</td>" in text
    assert "<h2>The seeds</h2>" in text


def test_lengths_are_counted_in_bins():
    lengths = np.array([1, 2, 3, 32, 32])

    bars = finetune_report.length_histogram(lengths).bars

    assert len(bars) == finetune_report.NUM_BINS
    assert (bars["2"], bars["4"], bars["32"]) == (2, 1, 2)
    assert sum(bars.values()) == 5


def test_confusions_have_labels_in_rows():
    table = finetune_report.confusion_matrix(
        np.array([0, 0, 1]), np.array([1, 1, 1]), ["no", "yes"]
    )

    assert isinstance(table, report.Table)
    assert list(table.rows) == [("no", "0", "2"), ("yes", "0", "1")]


@dataclasses.dataclass
class Pair:
    guid: str
    text_a: str
    text_b: str
    label: str = "yes"


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (("one", "two"), "one | two"),
        (("one", ""), "one"),
        (("x" * 290, "y" * 20), f"{'x' * 290} | yyyyyy\u2026"),
    ],
)
def test_an_error_shows_its_texts_and_cuts_long_ones(texts, shown):
    assert finetune_report._describe(Pair("a", *texts)) == ("a", shown)
