import collections
import dataclasses
import json
import logging
import pathlib
import tracemalloc
import types

import numpy as np
import pytest

from albert_tf.checkpoints.metadata import Metadata
from albert_tf.tasks.squad import examples as examples_lib
from albert_tf.tasks.squad.data import SquadData
from albert_tf.tasks.squad.predictions import (
    BEAM_NAMES,
    QuestionPrediction,
    SpanLimits,
    SpanPrediction,
)
from albert_tf.tasks.squad.windows import WindowLengths
from tests.tasks.writing import write_predictions


@pytest.fixture
def make_data(words):
    """Makes the data half with a tiny vocabulary; arguments override."""

    def make(**changes):
        settings = {
            "tokenizer": words,
            "lengths": WindowLengths(
                max_seq_length=40, doc_stride=6, max_query_length=8
            ),
            "limits": SpanLimits(n_best_size=3, max_answer_length=8),
        }
        return SquadData(**settings | changes)

    return make


@pytest.fixture
def ask(make_data):
    """Makes a data half, questions, and outputs that point to answers.

    The first two arguments are the examples, and for each the text that is
    pointed to; `cls_logits` are what its windows say of no answer, in version
    2.0. Other arguments are the data half's.
    """

    def make(examples, answers, cls_logits=None, **settings):
        data = make_data(
            version_2_with_negative=cls_logits is not None, **settings
        )
        questions = data.questions(examples)
        outputs = outputs_for(questions.windowed, answers, cls_logits)
        return data, questions, outputs

    return make


@pytest.fixture
def asked(make_example):
    """Two questions with an answer, one without."""
    return [
        make_example(guid="q1"),
        make_example("black", guid="q2"),
        make_example(guid="q3", answers=()),
    ]


def outputs_for(questions, answers, cls_logits):
    rows = collections.defaultdict(list)
    for question, text, null in zip(
        questions, answers, cls_logits or [0] * len(answers), strict=True
    ):
        place = question.paragraph.text.index(text)
        tokens = question.paragraph.find_tokens(
            examples_lib.Answer(text=text, start=place)
        )
        for window in question.windows:
            size = question.offset + len(window) + 1
            ends = np.zeros((2, size), np.float32)
            shift = question.offset - window.start
            is_inside = tokens[0] >= window.start and tokens[1] < window.stop
            first, last = (p + shift if is_inside else 0 for p in tokens)
            ends[0, first] = ends[1, last] = 9
            rows["start_logits"].append(ends[0])
            rows["end_logits"].append(ends[1])
            rows["start_top_index"].append([first])
            rows["end_top_index"].append([last])
            rows["start_top_log_probs"].append([-1.0 - first])
            rows["end_top_log_probs"].append([-1.0])
            rows["cls_logits"].append(null)
    if cls_logits is None:
        return {name: rows[name] for name in ("start_logits", "end_logits")}
    return {n: np.array(rows[n]) for n in (*BEAM_NAMES, "cls_logits")}


def read_json(path):
    return json.loads(pathlib.Path(path).read_text("utf-8"))


def test_the_threshold_blanks_predictions(ask, asked, tmp_path):
    data, questions, outputs = ask(
        asked, ["white", "black", "coal"], [-1.0, -2.0, 3.0]
    )
    scores = data.scores(questions, outputs)

    write_predictions(data, questions, outputs, tmp_path, scores)

    assert read_json(tmp_path / "predictions.json") == {
        "q1": "white",
        "q2": "black",
        "q3": "",
    }
    odds = {"q1": -1, "q2": -2, "q3": 3}
    assert read_json(tmp_path / "null_odds.json") == odds
    assert read_json(tmp_path / "predict_results.json") == scores.flat()
    n_best = read_json(tmp_path / "nbest_predictions.json")
    assert list(n_best) == ["q1", "q2", "q3"]
    assert n_best["q3"][0]["text"] == "coal"


def test_the_answers_of_many_questions_are_not_in_memory_at_once(
    ask, make_example, tmp_path
):
    number = 100
    data, questions, outputs = ask(
        [
            make_example(
                guid=f"q{i}", context="snow is white and coal is black " * 3
            )
            for i in range(number)
        ],
        ["white"] * number,
        limits=SpanLimits(n_best_size=20, max_answer_length=8),
    )

    tracemalloc.start()
    write_predictions(data, questions, outputs, tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    path = tmp_path / "nbest_predictions.json"
    text = path.read_text("utf-8")
    assert len(text) > 150_000
    assert peak < len(text)
    assert text == json.dumps(json.loads(text), indent=4) + "\n"


@pytest.mark.parametrize(
    ("thresholds", "odds", "answer", "used"),
    [
        ({"known": 1.5}, 2.0, "", 1.5),
        ({"known": 1.5}, 1.0, "white", 1.5),
        ({"known": 1.5, "null_score_diff_threshold": 0.0}, 1.0, "", 0.0),
        ({}, -1.0, "white", 0.0),
    ],
)
def test_predictions_do_not_choose_a_threshold(
    thresholds, odds, answer, used, ask, make_example, tmp_path, caplog
):
    given = dict(thresholds)
    known = Metadata(null_threshold=given.pop("known", None)).chosen
    data, questions, outputs = ask([make_example()], ["white"], [odds], **given)

    with caplog.at_level(logging.WARNING):
        write_predictions(data, questions, outputs, tmp_path, known)

    assert read_json(tmp_path / "predictions.json") == {"q1": answer}
    results = read_json(tmp_path / "predict_results.json")
    assert results["null_threshold"] == used
    assert results["f1"] == (100 if answer else 0)
    warning = "The null threshold is not known; using 0.0"
    assert (warning in caplog.text) == (not thresholds)


def test_files_of_other_predictions_do_not_stay(
    ask, asked, make_example, tmp_path
):
    data, questions, outputs = ask([make_example()], ["white"], [1.0])
    write_predictions(data, questions, outputs, tmp_path)
    names = {"predictions.json", "nbest_predictions.json"}
    of_version_2 = {"null_odds.json", "predict_results.json"}
    assert {p.name for p in tmp_path.iterdir()} == names | of_version_2

    data, questions, outputs = ask(asked, ["white", "black", "coal"])
    write_predictions(data, questions, outputs, tmp_path)

    assert {p.name for p in tmp_path.iterdir()} == names


def test_version_1_predicts_impossible_questions(ask, asked, tmp_path):
    data, questions, outputs = ask(asked, ["white", "black", "coal"])

    names = write_predictions(data, questions, outputs, tmp_path)

    # Without scores, which would not be those of version 1.1.
    assert names == ["nbest_predictions.json", "predictions.json"]
    assert read_json(tmp_path / "predictions.json")["q3"] == "coal"


def test_answers_in_chinese_are_compared_by_characters(ask, asked):
    data, questions, outputs = ask(asked[:2], ["white", "is black."])
    chinese = dataclasses.replace(data, metric_language="zh")

    by_words, by_runs = (
        one.scores(questions, outputs) for one in (data, chinese)
    )

    # Of 2 words one is right; or of 3, with the full stop.
    assert by_words["f1"] == pytest.approx(100 * (1 + 2 / 3) / 2)
    assert by_runs["f1"] == pytest.approx(100 * (1 + 2 / 4) / 2)
    of_rows = data.score_of_rows(questions, outputs, by_words)
    assert of_rows(np.array([0, 1])) == by_words["f1"]
    assert of_rows(np.array([0, 0])) == 100
    # Another evaluation chooses other weights.
    assert chinese.settings != data.settings


def predicted(text, *, probability=0.5, null_odds=0.0):
    span = SpanPrediction(text, probability, 0.0, 0.0)
    return QuestionPrediction(spans=[span], null_odds=null_odds)


def test_the_chart_has_both_scores_over_the_thresholds(make_data, asked):
    found = [
        predicted("white", null_odds=-1.0),
        predicted("black snow", null_odds=0.0),
        predicted("coal", null_odds=1.0),
    ]

    data = make_data(version_2_with_negative=True)
    chart = data.threshold_chart(asked, found)

    # None, the first, the first two (F1 2/3), all.
    f1 = [100 / 3, 200 / 3, 100 * (2 + 2 / 3) / 3, 100 * (1 + 2 / 3) / 3]
    exact = [100 / 3, 200 / 3, 200 / 3, 100 / 3]
    for name, scores in (("F1", f1), ("exact", exact)):
        thresholds, values = zip(*chart["curves"][name], strict=True)
        assert thresholds == (-1, -0.5, 0.5, 2)
        np.testing.assert_allclose(values, scores)
    assert chart["x_label"] == "null threshold"


def test_the_worst_errors_are_wrong_and_were_sure(make_data, asked):
    found = [
        predicted("coal", probability=0.6),
        predicted("the black coal", probability=0.99),
        predicted("coal", probability=0.9),
    ]

    data = make_data()
    table = data.worst_errors(asked, found, [one.text for one in found])

    question = asked[0].question
    assert table["rows"] == [
        ["q3", question, "(none)", "coal", "0.9000"],
        ["q1", question, "white", "coal", "0.6000"],
    ]
    # An answer that is withdrawn is an error where there is one.
    withdrawn = data.worst_errors(asked, found, ["", "", ""])["rows"]
    assert [(row[0], row[3]) for row in withdrawn] == [
        ("q2", "(none)"),
        ("q1", "(none)"),
    ]


def test_results_without_a_loss_name_the_many_answers(make_data):
    # All records to evaluate start at 0: several answers may be right.
    data = make_data()
    records = types.SimpleNamespace(num_records=20, specs=data.array_specs)

    assert "may have several answers" in data.why_not_compared(records)


def test_empty_contexts_and_questions_get_a_prediction(
    make_data, make_example, tmp_path
):
    data = make_data()
    questions = data.questions(
        [
            make_example(guid="q1", context="", answers=None),
            make_example(guid="q2", context=" \n", answers=None),
            make_example(guid="q3", question="", answers=None),
        ]
    )
    records = data.records(questions, is_training=False)
    rows = [np.zeros(len(r["input_ids"]), np.float32) for r in records]
    outputs = {"start_logits": rows, "end_logits": rows}

    write_predictions(data, questions, outputs, tmp_path)

    found = read_json(tmp_path / "predictions.json")
    assert (found["q1"], found["q2"]) == ("", "")
    assert found["q3"]


def recorded_outputs(golden):
    """The recorded outputs, and zeros for the windows the original lacks."""
    logits, rows = golden.logits, []
    for number, question in enumerate(golden.questions):
        own = golden.rows[number].tolist()
        rows += own or [None] * len(question.windows)
    return {
        name: np.stack(
            [
                np.zeros_like(values[0]) if row is None else values[row]
                for row in rows
            ]
        )
        for name, values in logits.items()
        if name != "unique_id"
    }


@pytest.fixture
def golden_data(recorded, english):
    """Makes data, examples and outputs of recorded questions."""

    def make(name, **settings):
        golden = recorded(name)
        data = SquadData(
            tokenizer=english,
            lengths=golden.lengths,
            limits=SpanLimits(),
            **settings,
        )
        return golden, data, golden.examples, recorded_outputs(golden)

    return make


def assert_best_answers_are_recorded(folder, output_dir, others=()):
    wanted = read_json(folder / "nbest_predictions.json")
    found = read_json(output_dir / "nbest_predictions.json")
    assert list(found) == list(wanted)
    for guid in wanted.keys() - others:
        for own, recorded in zip(found[guid], wanted[guid], strict=True):
            probability = pytest.approx(recorded["probability"], abs=1e-6)
            assert own == recorded | {"probability": probability}


@pytest.mark.parametrize(
    ("name", "others"),
    # The original answers these with "empty": it drops the Hangul paragraph,
    # and elsewhere none of the 20 likeliest starts and ends fit together.
    [
        ("v1", set()),
        ("edge", {"shared-edge-0-0", "shared-edge-2-0", "shared-edge-4-0"}),
    ],
)
def test_version_1_equals_the_recorded_files(
    name, others, golden_data, tmp_path
):
    golden, data, asked, outputs = golden_data(name)

    write_predictions(data, asked, outputs, tmp_path)

    found = read_json(tmp_path / "predictions.json")
    wanted = read_json(golden.folder / "predictions.json")
    assert list(found) == list(wanted)
    assert {guid for guid in wanted if found[guid] != wanted[guid]} == others
    # There are no recorded outputs for the Hangul paragraph.
    assert all(found[guid] for guid in others - {"shared-edge-2-0"})
    assert_best_answers_are_recorded(golden.folder, tmp_path, others)
    scores = data.scores(asked, outputs)
    recorded_scores = read_json(golden.folder / "metrics.json")
    if not others:
        assert scores.flat() == pytest.approx(recorded_scores, rel=1e-12)
    else:
        assert scores["exact_match"] >= recorded_scores["exact_match"]


@pytest.mark.parametrize("shift", [0, 3])
def test_version_2_equals_the_recorded_files(shift, golden_data, tmp_path):
    golden, data, asked, outputs = golden_data(
        "v2", version_2_with_negative=True
    )
    folder = golden.folder / "cls_logits_plus_3" if shift else golden.folder
    recorded_scores = read_json(folder / "metrics.json")
    outputs["cls_logits"] = outputs["cls_logits"] + np.float32(shift)
    given = dataclasses.replace(
        data,
        null_score_diff_threshold=recorded_scores["null_score_diff_threshold"],
    )

    write_predictions(given, asked, outputs, tmp_path)

    assert read_json(tmp_path / "predictions.json") == read_json(
        folder / "predictions.json"
    )
    assert_best_answers_are_recorded(golden.folder, tmp_path)
    odds = read_json(folder / "null_odds.json")
    assert read_json(tmp_path / "null_odds.json") == pytest.approx(odds)
    # Not those that the original reports: it takes every question for
    # unanswered whose no-answer logit is above 1.
    wanted = recorded_scores["final_predictions_scored_without_logit_override"]
    found = given.scores(asked, outputs)
    assert {name: found[name] for name in wanted} == pytest.approx(wanted)


def test_version_2_without_a_threshold_equals_the_recorded_files(golden_data):
    golden, data, asked, outputs = golden_data(
        "v2", version_2_with_negative=True
    )
    wanted = read_json(golden.folder / "metrics.json")

    predictions = list(data.predict(asked, outputs))
    tuned = data.scores(asked, outputs)
    always = dataclasses.replace(data, null_score_diff_threshold=1e9)
    answered = always.scores(asked, outputs)

    texts = {
        example.guid: one.text
        for example, one in zip(asked, predictions, strict=True)
    }
    assert texts == read_json(golden.folder / "predictions_no_threshold.json")
    scores = wanted["no_threshold_predictions"]
    assert {name: answered[name] for name in scores} == pytest.approx(scores)
    # The original names the odds of the last question that is answered, and
    # then withdraws that answer; ours lies between those and the next.
    odds = sorted(one.null_odds for one in predictions)
    place = sum(value < tuned["null_threshold"] for value in odds)
    best = wanted["threshold_search"]
    assert odds[place - 1] == pytest.approx(best["best_f1_thresh"], rel=1e-6)
    assert tuned["f1"] == pytest.approx(best["best_f1"], rel=1e-12)
