import logging

import numpy as np
import pytest

from albert_tf.metrics import squad as metrics
from albert_tf.tasks.squad import examples as examples_lib
from albert_tf.tasks.squad import features, predictions
from albert_tf.tasks.squad.examples import Answer
from albert_tf.tasks.squad.predictions import SpanLimits
from albert_tf.tasks.squad.windows import Questions, WindowLengths

RECORDED_NAMES = {
    "start_positions": "start_position",
    "end_positions": "end_position",
}


def test_a_window_is_question_and_paragraph_between_special_tokens(
    make_example, make_question, words
):
    question = make_question(make_example())

    (record,) = features.prediction_records([question], words.special_ids)

    special = words.special_ids
    asked = words.encode(question.example.question)
    text = words.encode(question.example.context)
    assert record["input_ids"].tolist() == [
        special.cls, *asked, special.sep, *text, special.sep
    ]  # fmt: skip
    num_first, num_second = len(asked) + 2, len(text) + 1
    assert record["input_mask"].tolist() == [1] * (num_first + num_second)
    assert record["segment_ids"].tolist() == [0] * num_first + [1] * num_second
    assert record["p_mask"].tolist() == [
        0, *[1] * (num_first - 1), *[0] * (num_second - 1), 1
    ]  # fmt: skip
    for name in ("start_positions", "end_positions", "is_impossible"):
        assert record[name] == 0


def test_windows_without_the_whole_answer_are_impossible(
    make_example, make_question, words
):
    text = "coal is black and snow is white and milk is white too"
    question = make_question(
        make_example("snow is white", context=text),
        max_seq_length=28,
        doc_stride=4,
        max_query_length=8,
    )

    records = list(features.training_records([question], words.special_ids))

    first, last = question.paragraph.find_tokens(question.example.answers[0])
    holds = [w.start <= first and last < w.end for w in question.windows]
    assert {True, False} == set(holds)
    for record, window, is_inside in zip(
        records, question.windows, holds, strict=True
    ):
        shift = question.offset - window.start
        wanted = (first + shift, last + shift) if is_inside else (0, 0)
        found = record["start_positions"], record["end_positions"]
        assert found == wanted
        assert record["is_impossible"] == (not is_inside)


def test_an_empty_paragraph_has_a_window(make_example, make_question, words):
    question = make_question(make_example(context="", answers=()))

    (record,) = features.training_records([question], words.special_ids)

    special = words.special_ids
    assert record["input_ids"][-2:].tolist() == [special.sep, special.sep]
    assert record["p_mask"].sum() == len(record["p_mask"]) - 1
    # As every question without an answer.
    assert record["is_impossible"] == 1
    assert record["start_positions"] == record["end_positions"] == 0


def test_what_cannot_be_aligned_is_counted_and_listed(
    make_example, make_question, words, caplog
):
    answers = {
        "good": Answer(text="white", start=12),
        "lost": Answer(text="white", start=13),
        "also_lost": Answer(text="black", start=12),
    }
    asked = [
        make_question(make_example(guid=guid, answers=(answer,)))
        for guid, answer in answers.items()
    ]

    with caplog.at_level(logging.WARNING):
        records = list(features.training_records(asked, words.special_ids))

    assert len(records) == 1
    assert "0 of 3 answers" in caplog.text
    assert "2 answers are not in their context" in caplog.text
    assert "lost: 'white', found: nothing" in caplog.text
    assert "also_lost: 'black', found: nothing" in caplog.text


def test_part_of_a_token_is_listed_and_trained_on(
    make_example, english, caplog
):
    # The first answer is not in its place.
    answers = (Answer(text="old", start=0), Answer(text="gold", start=6))
    example = make_example(context="It is golden.", answers=answers)
    questions = Questions([example], english, WindowLengths()).split()

    with caplog.at_level(logging.WARNING):
        (record,) = features.training_records(questions, english.special_ids)

    (token,) = {int(record[f"{end}_positions"]) for end in ("start", "end")}
    assert english.decode([record["input_ids"][token]]) == "golden"
    assert "1 of 1 answers begin or end within a token" in caplog.text
    assert "q1: 'gold', found: 'golden'" in caplog.text


def test_long_lists_are_cut(
    make_example, make_question, words, caplog, monkeypatch
):
    monkeypatch.setattr(features, "MAX_LISTED", 2)
    lost = (Answer(text="x" * 100, start=0),)
    asked = [
        make_question(make_example(guid=f"q{i}", answers=lost))
        for i in range(5)
    ]

    with caplog.at_level(logging.WARNING):
        assert not list(features.training_records(asked, words.special_ids))

    assert caplog.text.count("found: nothing") == 2
    assert f"'{'x' * 60}...'" in caplog.text
    assert "and 3 more" in caplog.text


def test_of_several_answers_the_first_of_whole_tokens_is_taken(
    make_example, make_question
):
    answers = (
        Answer(text="coal", start=0),
        Answer(text="black", start=31),
        Answer(text="white", start=12),
    )
    question = make_question(make_example(answers=answers))

    tokens, misfit = features.find_answer(question)

    assert question.paragraph.span_text(*tokens) == "black"
    assert misfit is None


@pytest.mark.parametrize(
    ("name", "num_windows"), [("v1", 169), ("v2", 180), ("edge", 10)]
)
def test_records_equal_the_recorded_ones(name, num_windows, recorded, english):
    golden = recorded(name)
    num_compared = 0
    for number, rows in golden.rows.items():
        question = golden.training_questions[number]
        records = list(
            features.training_records([question], english.special_ids)
        )
        if not rows.size:
            # Differs: the original drops it, since the tokens of Hangul have
            # other characters than the text. Ours has its window.
            assert question.example.guid == "shared-edge-2-0"
            assert len(records) == 1
            continue
        for record, row in zip(records, rows, strict=True):
            for key, values in record.items():
                wanted = golden.arrays[RECORDED_NAMES.get(key, key)][row]
                if values.ndim:
                    padding = np.full(192 - len(values), key == "p_mask")
                    values = np.concatenate([values, padding])
                np.testing.assert_array_equal(values, wanted, err_msg=key)
            num_compared += 1

    assert num_compared == num_windows == len(golden.arrays["unique_id"])


@pytest.mark.parametrize(
    ("name", "num_questions", "unaligned"),
    [
        # "four" of "fourth", and no other annotator's answer.
        ("dev-v1.1.json", 7235, {"56dfa1d34a1a83140091ebd4"}),
        ("dev-v2.0.reconstructed.json", 7975, set()),
    ],
)
def test_true_answers_survive_the_windows(
    name, num_questions, unaligned, shared_data, english
):
    asked = examples_lib.read_examples(shared_data / "data" / "squad" / name)
    special, limits = english.special_ids, SpanLimits(max_answer_length=384)
    answers, listed = {}, set()
    for question in Questions(asked, english, WindowLengths()).split():
        tokens, misfit = features.find_answer(question)
        if misfit:
            listed.add(misfit.guid)
        starts, ends = [], []
        for record in features.training_records([question], special):
            is_start, is_end = np.zeros((2, len(record["input_ids"])))
            if not record["is_impossible"]:
                is_start[record["start_positions"]] = 1
                is_end[record["end_positions"]] = 1
            starts.append(is_start)
            ends.append(is_end)
        if tokens:
            spans = predictions.spans_of_logits(question, starts, ends, limits)
            best = predictions.best_spans(question, spans, limits)
            answers[question.example.guid] = best[0].text

    wrong = {
        example.guid
        for example in asked
        if example.answers
        and not metrics.exact_match(
            answers[example.guid], [a.text for a in example.answers]
        )
    }
    assert len(asked) == num_questions
    assert wrong == listed == unaligned
    assert len(listed) < num_questions / 1000
