import dataclasses

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from scipy import special

from albert_tf.checkpoints.metadata import Metadata
from albert_tf.metrics import classification
from albert_tf.metrics.scores import Score, Scores
from albert_tf.tasks import error_tables
from albert_tf.tasks.classification import data as data_lib
from albert_tf.tasks.classification import glue
from albert_tf.tasks.classification.data import ClassificationData
from albert_tf.tasks.classification.decision import Decision
from albert_tf.tasks.labelled_texts import (
    ClassificationExample,
    split_labels,
)
from tests.tasks.writing import write_predictions

# Recorded features, the task whose columns they have, and file and split.
GOLDEN = [
    ("ax_test_64", "mnli", "diagnostic/diagnostic.tsv", "test", 8),
    ("cola_64", "cola", "CoLA/dev.tsv", "dev", 20),
    ("cola_test_64", "cola", "CoLA/test.tsv", "test", 8),
    ("mismnli_64", "mismnli", "MNLI/dev_mismatched.tsv", "dev", 1),
    ("mnli_64", "mnli", "MNLI/dev_matched.tsv", "dev", 1),
    ("mnli_train_64", "mnli", "MNLI/train.tsv", "train", 2),
    ("mrpc_64", "mrpc", "MRPC/dev.tsv", "dev", 20),
    ("qnli_64", "qnli", "QNLI/dev.tsv", "dev", 20),
    ("qqp_64", "qqp", "QQP/dev.tsv", "dev", 20),
    ("rte_64", "rte", "RTE/dev.tsv", "dev", 20),
    ("rte_test_64", "rte", "RTE/test.tsv", "test", 8),
    ("sst-2_64", "sst-2", "SST-2/dev.tsv", "dev", 20),
    ("sst-2_test_64", "sst-2", "SST-2/test.tsv", "test", 8),
    ("sts-b_64", "sts-b", "STS-B/dev.tsv", "dev", 20),
    ("wnli_64", "wnli", "WNLI/dev.tsv", "dev", 20),
]


@pytest.fixture
def make_data(words):
    def make(**changes):
        settings = {
            "name": "kind",
            "labels": ("ham", "spam", "eggs"),
            "score_names": ("accuracy", "f1_macro"),
            "tokenizer": words,
            "max_seq_length": 12,
        }
        return ClassificationData(**settings | changes)

    return make


@pytest.fixture
def regression(make_data):
    return make_data(
        labels=(),
        score_names=("pearson", "spearman", "mean_squared_error"),
        prediction_range=(0.0, 5.0),
    )


def make_examples(*labels):
    return [
        ClassificationExample(guid=f"id-{i}", text_a="the sea", label=label)
        for i, label in enumerate(labels)
    ]


def records(data, examples):
    return list(data.records(examples, is_training=False))


@pytest.mark.parametrize(
    ("recorded", "name", "path", "split", "num_rows"),
    GOLDEN,
    ids=[case[0] for case in GOLDEN],
)
def test_features_equal_the_recorded_ones(
    recorded, name, path, split, num_rows, english, shared_data
):
    folder = shared_data / "golden" / "glue"
    wanted = np.load(folder / f"{recorded}.npz")
    dataset = glue.GLUE_DATASETS[name]
    examples = glue.read_examples(dataset, folder / "data" / path, split)
    data = ClassificationData(
        name=name,
        labels=dataset.labels,
        score_names=dataset.score_names,
        tokenizer=english,
        max_seq_length=64,
    )

    found = records(data, examples)

    assert len(found) == len(wanted["guid"]) == num_rows
    assert [example.guid for example in examples] == wanted["guid"].tolist()
    # The original's list of a regression is [None].
    label_list = list(dataset.labels or ["None"])
    assert wanted["label_list"].tolist() == label_list
    for field in ("input_ids", "input_mask", "segment_ids"):
        padded = np.zeros([num_rows, 64], np.int32)
        for row, record in zip(padded, found, strict=True):
            row[: record[field].size] = record[field]
        np.testing.assert_array_equal(padded, wanted[field], err_msg=field)
    labels = np.array([record["label_ids"] for record in found])
    np.testing.assert_array_equal(labels, wanted["label_id"])
    assert labels.dtype == wanted["label_id"].dtype


def test_the_recorded_features_are_all_compared(shared_data):
    files = (shared_data / "golden" / "glue").glob("*_64.npz")

    assert sorted(file.stem for file in files) == sorted(c[0] for c in GOLDEN)


def test_a_record_is_that_of_its_own_texts(make_data, words, monkeypatch):
    monkeypatch.setattr(data_lib, "_CHUNK_SIZE", 3)
    texts = [("the sea", ""), ("", "wind"), ("a b", "the wind"), ("sea", "x")]
    examples = [
        ClassificationExample(guid=str(i), text_a=a, text_b=b)
        for i, (a, b) in enumerate(texts)
    ]
    special = words.special_ids

    found = records(make_data(max_seq_length=99), examples)

    for (a, b), record in zip(texts, found, strict=True):
        ids = [special.cls, *words.encode(a), special.sep]
        segments = [0] * len(ids)
        if b:
            ids_b = [*words.encode(b), special.sep]
            ids, segments = ids + ids_b, segments + [1] * len(ids_b)
        assert record["input_ids"].tolist() == ids
        assert record["segment_ids"].tolist() == segments
        assert record["input_mask"].tolist() == [1] * len(ids)


@pytest.mark.parametrize("positive", ["fraud", "ok"])
def test_the_f1_of_two_classes_names_its_class(positive, make_data):
    data = make_data(
        labels=("fraud", "ok"),
        score_names=classification.names_for(("fraud", "ok")),
        positive_label=positive,
        has_class_scores=True,
    )
    # Fraud: 1 right, 2 missed; ok: 6 right, 1 wrong.
    logits = np.array([[2, 0], [0, 1], [0, 2], [3, 0], *[[0, 3]] * 6])
    labels = [0, 0, 0, 1] + [1] * 6

    found = data.scores(make_examples(*labels), {"logits": logits})

    f1 = {"fraud": 2 / (2 + 3), "ok": 12 / (8 + 7)}
    assert found["f1_of_fraud"] == pytest.approx(f1["fraud"])
    assert found["f1_of_ok"] == pytest.approx(f1["ok"])
    assert found["f1_macro"] == pytest.approx(sum(f1.values()) / 2)
    assert found["precision_of_fraud"] == 1 / 2
    assert found["recall_of_fraud"] == 1 / 3
    assert found["number_of_ok"] == 7
    is_positive = np.array(labels) == data.labels.index(positive)
    differences = logits[:, 1] - logits[:, 0]
    wanted = sklearn.metrics.average_precision_score(
        is_positive, differences if positive == "ok" else -differences
    )
    key = f"average_precision_of_{positive}"
    assert found[key] == pytest.approx(wanted)
    assert found["roc_auc"] == pytest.approx(
        sklearn.metrics.roc_auc_score(labels, differences)
    )
    assert not {"f1", "average_precision"} & found.flat().keys()
    assert data.primary_metric == "accuracy"
    *_, table = error_tables.sections(
        data, make_examples(*labels), {"logits": logits}, Scores()
    )
    of_rows = data.score_of_rows(
        make_examples(*labels), {"logits": logits}, found
    )
    assert of_rows(np.arange(10)) == found["accuracy"]
    assert table["rows"][0] == ("fraud", "0.5", "0.333333", "0.4", "3")


def test_areas_that_are_not_defined_are_left_out_and_told(make_data, caplog):
    labels = ("fraud", "ok")
    data = make_data(
        labels=labels, score_names=classification.names_for(labels)
    )

    found = data.scores(make_examples(0, 0), {"logits": np.eye(2)})

    # As 0, they would be taken for those of a very bad model.
    assert not {"roc_auc", "average_precision"} & found.flat().keys()
    assert found["accuracy"] == 0.5
    assert "roc_auc, average_precision: left out. The" in caplog.text


@pytest.mark.parametrize(
    ("changes", "labels", "expected"),
    [
        ({}, [0, 1, 1, 1, 2], 0.6),
        # All are called spam.
        ({"labels": ("a", "b"), "score_names": ("f1",)}, [0, 0, 0, 1], 0.4),
        (
            {"labels": ("a", "b"), "score_names": ("matthews_correlation",)},
            [0, 0, 1],
            0.0,
        ),
    ],
)
def test_the_baseline_is_that_of_the_best_single_answer(
    changes, labels, expected, make_data
):
    found = make_data(**changes).baselines(make_examples(*labels))

    assert list(found.values()) == [pytest.approx(expected)]


def test_the_baseline_of_numbers_is_their_mean(regression):
    found = regression.baselines(make_examples(1.0, 2.0))

    assert found == {"pearson": 0, "spearman": 0, "mean_squared_error": 0.25}


def test_the_baseline_of_several_labels_is_of_the_most_frequent(several):
    examples = make_examples((0,), (0, 1), (0,), (0,), ())

    # Ham for all: 4 of 5 are right, 4 of 5 are found.
    assert several.baselines(examples) == {"f1_micro": pytest.approx(0.8)}
    given = decided(several, 0.9, 0.1, 0.1)
    assert given.baselines(examples) == several.baselines(examples)


@pytest.mark.parametrize("labels", [("a", "b"), ("a", "b", "c")])
def test_rows_of_one_class_take_no_model(labels, make_data):
    data = make_data(labels=labels)
    found = data.baselines(make_examples(1, 1))
    scores = data.scores(make_examples(1, 1), {"logits": np.eye(3)[[1, 1]]})
    scores = scores.with_entries(Score.baseline(*row) for row in found.items())

    assert found == {"accuracy": 1}
    assert "accuracy 1, against 1 without a model" in scores.verdict()


def test_labels_that_hold_the_separator_are_written_as_a_list(
    several, tmp_path
):
    data = dataclasses.replace(several, labels=("a|b", "c", "ü"))
    outputs = {"logits": SEVERAL_LOGITS[:, [0, 2, 1]]}

    write_predictions(data, make_examples((0, 2), (2,), ()), outputs, tmp_path)

    rows = (tmp_path / "predictions.tsv").read_text("utf-8").splitlines()
    written = [row.split("\t")[1:3] for row in rows[1:]]
    assert written == [
        ['["a|b"]', '["a|b", "ü"]'],
        ['["a|b", "ü"]', "ü"],
        ["", ""],
    ]
    assert split_labels(written[0][1], "|", "") == ["a|b", "ü"]


@pytest.fixture
def spam(make_data):
    """Two labels, and rows with a model that is too certain."""
    labels = ("ham", "spam")
    rng = np.random.default_rng(1)
    known = rng.integers(2, size=200)
    logits = np.zeros((200, 2), np.float32)
    logits[:, 1] = rng.normal(loc=10 * known - 4, scale=8)
    data = make_data(
        labels=labels,
        score_names=classification.names_for(labels),
        positive_label="spam",
        has_class_scores=True,
        decision=Decision(goal="precision:0.95"),
    )
    return data, make_examples(*known), {"logits": logits}


def test_what_an_evaluation_decides_every_file_and_answer_has(spam, tmp_path):
    data, examples, outputs = spam

    scores = data.scores(examples, outputs)
    write_predictions(data, examples, outputs, tmp_path, scores)

    assert scores["precision_of_spam"] >= 0.95
    plain = dataclasses.replace(data, decision=Decision()).scores(
        examples, outputs
    )
    assert plain["precision_of_spam"] < 0.95
    # What the threshold costs selects no weights.
    assert scores["accuracy"] == plain["accuracy"]
    assert scores["calibration_error"] < scores["calibration_error_before"] / 2
    assert scores["temperature"] > 2
    assert scores["roc_auc"] == plain["roc_auc"]
    # A predictor has the metadata alone.
    kept = Metadata(labels=data.labels).measured(scores.flat())
    answering = dataclasses.replace(
        data, decision=Decision(kept.temperature, kept.thresholds)
    )
    answers = [*answering.answers(examples, outputs)]
    header, *rows = (tmp_path / "predictions.tsv").read_text().splitlines()
    assert [row.split("\t")[1] for row in rows] == [
        answer["prediction"] for answer in answers
    ]
    written = (tmp_path / "test_results.tsv").read_text().splitlines()
    expected = special.softmax(
        outputs["logits"].astype(float) / scores["temperature"], axis=-1
    )
    for row, answer, both in zip(written, answers, expected, strict=True):
        probabilities = [*answer["probabilities"].values()]
        assert probabilities == pytest.approx(both, abs=1e-6)
        assert [float(x) for x in row.split("\t")] == probabilities
    # On other rows they are measured, not chosen again.
    again = answering.scores(examples[:50], {"logits": outputs["logits"][:50]})
    assert again["temperature"] == scores["temperature"]
    assert again["threshold_of_spam"] == scores["threshold_of_spam"]
    by_title = {
        section["title"]: section
        for section in error_tables.sections(data, examples, outputs, scores)
    }
    [_, *matrix] = by_title["Labels (rows) and predictions (columns)"]["rows"]
    assert int(matrix[0][2]) == round(
        scores["recall_of_spam"] * scores["number_of_spam"]
    )
    of_rows = data.score_of_rows(examples, outputs, scores)
    assert of_rows(np.arange(200)) == scores["accuracy"]


def test_without_calibration_no_temperature_is_chosen_or_lost(spam):
    data, examples, outputs = spam
    data = dataclasses.replace(data, decision=Decision(calibrates=False))

    scores = data.scores(examples, outputs)
    known = dataclasses.replace(data, decision=Decision(temperature=3.0))

    assert "temperature" not in scores
    assert scores["calibration_error"] == scores["calibration_error_before"]
    assert known.scores(examples, outputs)["temperature"] == 3


def test_another_set_is_decided_as_the_first(spam):
    data, examples, outputs = spam
    half = {"logits": outputs["logits"][100:]}
    first = data.scores(examples[:100], {"logits": outputs["logits"][:100]})

    found = data.with_decision(first).scores(examples[100:], half)

    assert found["temperature"] == first["temperature"]
    assert found["threshold_of_spam"] == first["threshold_of_spam"]
    assert (
        data.scores(examples[100:], half)["temperature"]
        != (first["temperature"])
    )


def test_a_goal_that_no_threshold_reaches_is_told(spam, tmp_path, caplog):
    data, examples, outputs = spam
    data = dataclasses.replace(data, decision=Decision(goal="precision:.99999"))
    outputs["logits"][:, 1] = 0

    scores = data.scores(examples, outputs)
    write_predictions(data, examples, outputs, tmp_path, scores)

    assert not scores.thresholds
    assert "No threshold is known that reaches precision:.99999" in caplog.text


@pytest.fixture
def three(make_data):
    """Three labels; rows of less confidence are less often right."""
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=300)
    logits = rng.normal(size=(300, 3)).astype(np.float32)
    logits[np.arange(300), labels] += rng.uniform(-1, 6, size=300)
    data = make_data(
        score_names=classification.names_for("abc"),
        has_class_scores=True,
        decision=Decision(goal="precision:0.95"),
    )
    return data, make_examples(*labels), {"logits": logits}


def test_of_many_labels_uncertain_rows_are_left_unanswered(
    three, tmp_path, caplog
):
    data, examples, outputs = three

    scores = data.scores(examples, outputs)
    write_predictions(data, examples, outputs, tmp_path, scores)

    answering = data.with_decision(scores)
    answers = [a["prediction"] for a in answering.answers(examples, outputs)]
    _, *rows = (tmp_path / "predictions.tsv").read_text().splitlines()
    columns = [row.split("\t")[1:3] for row in rows]
    assert [row[0] or None for row in columns] == answers
    right = [a == b for a, b in columns if a]
    assert scores["answered"] == pytest.approx(len(right) / 300)
    assert 0.95 <= scores["answered_accuracy"] == np.mean(right)
    low, high = scores.interval("answered_accuracy")
    assert low < scores["answered_accuracy"] < high
    assert f"{len(right) / 3:.3g}% of the evaluated rows are ans" in caplog.text
    # All others would be wrong more often.
    assert 0.5 < scores["answered"] < 1
    plain = dataclasses.replace(data, decision=Decision()).scores(
        examples, outputs
    )
    assert scores["accuracy"] == plain["accuracy"] < 0.95
    assert scores["f1_macro"] == plain["f1_macro"]
    by_title = {
        section["title"]: section
        for section in error_tables.sections(data, examples, outputs, scores)
    }
    matrix = by_title["Labels (rows) and predictions (columns)"]
    assert matrix["header"][-1] == "no answer"
    unanswered = sum(int(row[-1]) for row in matrix["rows"])
    assert unanswered == 300 - len(right)
    assert f"The worst of {right.count(False)} errors" in by_title


def test_a_goal_that_all_rows_reach_leaves_none_unanswered(three):
    data, examples, outputs = three
    labels = np.array([example.label for example in examples])
    outputs["logits"][np.arange(300), labels] += 9

    scores = data.scores(examples, outputs)

    assert scores["answered"] == 1
    assert scores["threshold_of_ham"] == 0


def test_a_goal_that_few_rows_reach_has_a_wide_interval(spam, tmp_path, caplog):
    data, examples, outputs = spam
    # Of the spam, two rows are certain; the others are like ham.
    labels = np.array([example.label for example in examples])
    outputs["logits"][:, 1] = 0
    outputs["logits"][np.flatnonzero(labels)[:2], 1] = 5

    scores = data.scores(examples, outputs)
    write_predictions(data, examples, outputs, tmp_path, scores)

    assert scores["precision_of_spam"] == 1
    # Wilson: 2 / (2 + 1.96^2).
    low = pytest.approx(2 / (2 + 1.96**2), rel=1e-3)
    assert scores.interval("precision_of_spam") == (low, 1)
    assert "may be between 0.342 and 1." in caplog.text


@pytest.fixture
def several(make_data):
    return make_data(
        score_names=classification.names_for("abc", multi_label=True),
        label_separator="|",
        has_class_scores=True,
    )


def decided(data, *thresholds):
    """The data with given thresholds."""
    return dataclasses.replace(data, decision=Decision(thresholds=thresholds))


# Probabilities 1/2, 3/4, 1/4, ...
HALF, HIGH, LOW = 0.0, np.log(3.0), -np.log(3.0)
SEVERAL_LOGITS = np.array(
    [[HIGH, LOW, LOW], [HALF, HIGH, LOW], [LOW, LOW, LOW]], np.float32
)
SEVERAL_LABELS = ((0,), (0, 1), ())


def test_rows_of_several_labels_choose_their_thresholds(several, tmp_path):
    examples = make_examples(*SEVERAL_LABELS * 5)
    outputs = {"logits": np.tile(SEVERAL_LOGITS, (5, 1))}

    scores = several.scores(examples, outputs)
    write_predictions(several, examples, outputs, tmp_path, scores)

    assert scores["f1_micro"] == scores["accuracy"] == 1
    # Of ham 1/4 and 1/2 are divided, of spam 1/4 and 3/4; eggs never occurs.
    chosen = several.decided_by(scores).thresholds
    assert chosen == pytest.approx((0.375, 0.5, 0.5))
    assert scores["threshold_of_ham"] == pytest.approx(0.375)
    assert scores["number_of_ham"] == 10
    rows = (tmp_path / "predictions.tsv").read_text().splitlines()
    assert rows[1:4] == [
        "id-0\tham\tham\tthe sea\t",
        "id-1\tham|spam\tham|spam\tthe sea\t",
        "id-2\t\t\tthe sea\t",
    ]
    first = (tmp_path / "test_results.tsv").read_text().splitlines()[0]
    np.testing.assert_allclose(
        list(map(float, first.split("\t"))), [0.75, 0.25, 0.25], rtol=1e-6
    )


def test_given_thresholds_are_used_and_not_chosen_again(several, tmp_path):
    data = decided(several, 0.6, 0.7, 0.2)
    outputs = {"logits": SEVERAL_LOGITS}

    scores = data.scores(make_examples(*SEVERAL_LABELS), outputs)
    write_predictions(data, make_examples(None, None, None), outputs, tmp_path)

    # So that the results of a run keep them, however often it is evaluated.
    assert data.decided_by(scores).thresholds == (0.6, 0.7, 0.2)
    assert [scores[f"threshold_of_{label}"] for label in data.labels] == [
        0.6,
        0.7,
        0.2,
    ]
    assert scores["recall_of_ham"] == 1 / 2
    rows = (tmp_path / "predictions.tsv").read_text().splitlines()
    assert rows[1:] == ["id-0\tham|eggs", "id-1\tspam|eggs", "id-2\teggs"]


def test_each_of_several_labels_may_be_doubtful(several):
    examples, outputs = make_examples(*SEVERAL_LABELS), SEVERAL_LOGITS

    found = [*several.labelled(examples, {"logits": outputs}, Scores())]

    ham, _, eggs = found
    assert ham.names == ("not ham", "ham")
    assert ham.labels.tolist() == [1, 1, 0]
    expected = [[0.25, 0.75], [0.5, 0.5], [0.75, 0.25]]
    np.testing.assert_allclose(ham.probabilities, expected, rtol=1e-6)
    assert eggs.labels.tolist() == [0, 0, 0]


def test_a_label_is_doubted_by_calibrated_probabilities(spam, regression):
    data, examples, outputs = spam
    scores = data.scores(examples, outputs)

    [found] = data.labelled(examples, outputs, scores)

    assert [*found.names] == ["ham", "spam"]
    expected = data.predictions_of(examples, outputs, scores).probabilities
    np.testing.assert_array_equal(found.probabilities, expected)
    # Numbers are not labels.
    numbers = {"logits": np.zeros((1, 1))}
    assert not [*regression.labelled(make_examples(1.5), numbers, Scores())]


def test_unknown_thresholds_are_a_half_and_that_is_told(
    several, tmp_path, caplog
):
    write_predictions(
        several,
        make_examples(None, None, None),
        {"logits": SEVERAL_LOGITS},
        tmp_path,
    )

    assert "thresholds of the labels are not known; using 0.5" in caplog.text
    rows = (tmp_path / "predictions.tsv").read_text().splitlines()
    assert rows[1:] == ["id-0\tham", "id-1\tham|spam", "id-2\t"]


def test_records_of_several_labels_have_a_column_for_each(several):
    found = records(several, make_examples((0, 2), (), None))

    labels = [record["label_ids"].tolist() for record in found]
    assert labels == [[1, 0, 1], [0, 0, 0], [0, 0, 0]]
    assert several.settings["multi_label"] is True


def test_scaled_numbers_are_learnt_and_answered_in_their_own_units(
    regression, tmp_path
):
    data = dataclasses.replace(
        regression,
        prediction_range=None,
        target_mean=1_000_000.0,
        target_scale=500.0,
    )
    examples = make_examples(999_500.0, 1_000_250.0)
    outputs = {"logits": np.array([[-1.0], [0.75]], np.float32)}

    found = [record["label_ids"] for record in records(data, examples)]
    scores = data.scores(examples, outputs)
    write_predictions(data, examples, outputs, tmp_path, scores)

    assert found == [-1, 0.5]
    assert scores["mean_squared_error"] == 125**2 / 2
    for name, column in (("test_results", 0), ("predictions", 1)):
        rows = (tmp_path / f"{name}.tsv").read_text().splitlines()[-2:]
        numbers = [row.split("\t")[column] for row in rows]
        assert numbers == ["999500.0", "1000375.0"]
    assert data.settings["target_mean"] == 1_000_000
    assert "target_mean" not in regression.settings


def test_numbers_far_from_0_keep_their_digits(regression, tmp_path):
    begin = 1_700_000_000.0
    data = dataclasses.replace(
        regression,
        prediction_range=None,
        target_mean=begin + 30,
        target_scale=30.0,
    )
    examples = make_examples(begin, begin + 60)
    outputs = {"logits": np.array([[-0.9], [0.9]], np.float32)}

    scores = data.scores(examples, outputs)
    write_predictions(data, examples, outputs, tmp_path, scores)

    assert scores["pearson"] == pytest.approx(1)
    assert scores["mean_squared_error"] == pytest.approx(9)
    rows = (tmp_path / "test_results.tsv").read_text().split()
    assert [float(row) - begin for row in rows] == pytest.approx([3, 57])


def test_scores_of_numbers_are_those_before_they_are_clipped(regression):
    logits = np.array([[-1.0], [2.0], [8.0]], np.float32)

    found = regression.scores(make_examples(0.0, 1.0, 2.0), {"logits": logits})

    # Line fit: x = 0, 1, 2; y = -1, 2, 8; r = 9 / sqrt(2 * 42).
    assert found["pearson"] == pytest.approx(9 / np.sqrt(84))
    assert found["mean_squared_error"] == pytest.approx((1 + 1 + 36) / 3)


@pytest.mark.parametrize(
    ("labels", "logits", "rows"),
    [
        ((None, None), [[2, 1, 0], [0, 1, 2]], ["id-0\tham", "id-1\teggs"]),
        # Labels that are known stand beside the predictions, with the texts.
        (
            (1, 2),
            [[2, 1, 0], [0, 1, 2]],
            ["id-0\tham\tspam\tthe sea\t", "id-1\teggs\teggs\tthe sea\t"],
        ),
        (
            (0.5, 4.0),
            [[1], [0]],
            ["id-0\t1.0\t0.5\tthe sea\t", "id-1\t0.0\t4.0\tthe sea\t"],
        ),
        # Numbers are clipped to the range of the task.
        (
            (None, None, None),
            [[-0.5], [2.125], [5.5]],
            ["id-0\t0.0", "id-1\t2.125", "id-2\t5.0"],
        ),
    ],
)
def test_a_submission_has_ids_predictions_and_known_labels(
    labels, logits, rows, make_data, regression, tmp_path
):
    logits = np.array(logits, np.float32)
    data = make_data() if logits.shape[1] > 1 else regression
    data = dataclasses.replace(data, submission_file="KIND.tsv")

    names = write_predictions(
        data, make_examples(*labels), {"logits": logits}, tmp_path
    )

    assert names == ["KIND.tsv", "test_results.tsv"]
    header, *found = (tmp_path / "KIND.tsv").read_text().splitlines()
    assert found == rows
    columns = ["index", "prediction", "label", "text_a", "text_b"]
    assert header.split("\t") == columns[: 1 + rows[0].count("\t")]


def test_scores_of_what_is_written_are_the_same_to_the_last_bit(
    regression, tmp_path
):
    generator = np.random.default_rng(2)
    # Numbers that hardly differ, as those of a model that has learnt little.
    logits = (2 + 1e-5 * generator.random([40, 1])).astype(np.float32)
    examples = make_examples(*generator.random(40).tolist())

    write_predictions(regression, examples, {"logits": logits}, tmp_path)

    rows = (tmp_path / "predictions.tsv").read_text().splitlines()[1:]
    found = np.array([row.split("\t")[1:3] for row in rows], np.float64)
    wanted = regression.scores(examples, {"logits": logits})["pearson"]
    assert scipy.stats.pearsonr(found[:, 1], found[:, 0])[0] == wanted


def test_an_id_cannot_break_its_row(make_data, tmp_path):
    example = ClassificationExample(guid="a\tb\nc", text_a="the sea")

    write_predictions(
        make_data(), [example], {"logits": np.eye(3)[:1]}, tmp_path
    )

    table = (tmp_path / "predictions.tsv").read_text("utf-8")
    assert table == "index\tprediction\na b c\tham\n"
