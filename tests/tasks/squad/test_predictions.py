import numpy as np
import pytest

from albert_tf.tasks.squad import predictions
from albert_tf.tasks.squad.predictions import BEAM_NAMES, SpanLimits

LIMITS = SpanLimits()


@pytest.fixture
def question(make_example, make_question):
    return make_question(make_example())


def answers_of(question, starts, ends, limits=LIMITS):
    spans = predictions.spans_of_logits(question, starts, ends, limits)
    return predictions.best_spans(question, spans, limits)


@pytest.mark.parametrize("name", ["n_best_size", "max_answer_length"])
def test_limits_must_be_positive(name):
    with pytest.raises(ValueError, match=f"`{name}` must be a whole number of"):
        SpanLimits(**{name: 0})


def test_the_likeliest_span_is_the_answer(question):
    size = question.offset + len(question.paragraph.ids) + 1
    starts, ends = np.zeros((2, size), np.float32)
    first, last = question.paragraph.find_tokens(question.example.answers[0])
    starts[question.offset + first] = 5
    ends[question.offset + last] = 4

    best, second, *_ = answers_of(question, [starts], [ends])

    assert best.text == "white"
    assert (best.start_score, best.end_score) == (5, 4)
    assert best.probability > second.probability


def test_probabilities_are_a_softmax_over_the_answers_kept(question):
    rng = np.random.default_rng(0)
    size = question.offset + len(question.paragraph.ids) + 1
    rows = rng.normal(size=(2, size)).astype(np.float32)

    found = answers_of(question, rows[:1], rows[1:], SpanLimits(n_best_size=15))

    powers = np.exp([one.start_score + one.end_score for one in found])
    np.testing.assert_allclose(
        [one.probability for one in found], powers / powers.sum()
    )
    assert len(found) == 15
    assert len({one.text for one in found}) == 15


def test_spans_lie_in_the_paragraph_in_order_and_are_not_too_long(question):
    size = question.offset + len(question.paragraph.ids) + 1
    limits = SpanLimits(n_best_size=size, max_answer_length=3)
    rng = np.random.default_rng(0)
    starts, ends = rng.normal(size=(2, size))

    found = predictions.spans_of_logits(question, [starts], [ends], limits)

    num_tokens = len(question.paragraph.ids)
    wanted = {
        (first, last)
        for first in range(num_tokens)
        for last in range(first, min(first + 3, num_tokens))
    }
    assert set(zip(found.first, found.last, strict=True)) == wanted
    for place, (first, last) in enumerate(
        zip(found.first, found.last, strict=True)
    ):
        assert found.start_scores[place] == starts[question.offset + first]
        assert found.end_scores[place] == ends[question.offset + last]


def test_a_span_counts_where_it_has_most_context(make_example, make_question):
    example = make_example(context="snow is white and coal is black " * 2)
    question = make_question(
        example, max_seq_length=30, doc_stride=3, max_query_length=8
    )
    sizes = [question.offset + w.size + 1 for w in question.windows]
    limits = SpanLimits(n_best_size=99, max_answer_length=1)
    rows = [np.full(size, number) for number, size in enumerate(sizes)]

    found = predictions.spans_of_logits(question, rows, rows, limits)

    assert len(sizes) > 2
    # Each token once, from its own window.
    order = np.argsort(found.first)
    assert found.first[order].tolist() == list(
        range(len(question.paragraph.ids))
    )
    assert set(found.start_scores) > {0, 1}


def test_where_likely_ends_do_not_fit_another_span_is_found(question):
    size = question.offset + len(question.paragraph.ids) + 1
    starts, ends = np.zeros((2, size), np.float32)
    # Both on [CLS], with one start and one end to combine.
    starts[0] = ends[0] = 9
    starts[question.offset] = ends[question.offset] = 1

    best, *_ = answers_of(question, [starts], [ends], SpanLimits(n_best_size=1))

    assert best.text == question.paragraph.span_text(0, 0)


def test_an_empty_paragraph_has_the_empty_answer(make_example, make_question):
    question = make_question(make_example(context="  ", answers=()))
    row = np.zeros(question.offset + question.windows[0].size + 1)

    (best,) = answers_of(question, [row], [row])

    assert (best.text, best.probability) == ("", 1)
    assert best.start_score == best.end_score == predictions.NO_SPAN_SCORE


def test_beams_hold_an_end_for_each_start(question):
    offset = question.offset
    beam = {
        "start_top_index": np.array([offset, offset + 2]),
        "start_top_log_probs": np.array([-1.0, -2.0]),
        # Of the first start: itself, and [CLS]; of the second likewise.
        "end_top_index": np.array([offset, 0, offset + 2, 0]),
        "end_top_log_probs": np.array([-3.0, -4.0, -5.0, -6.0]),
    }

    found = predictions.spans_of_beams(question, [beam], LIMITS)

    assert found.first.tolist() == found.last.tolist() == [0, 2]
    assert found.start_scores.tolist() == [-1, -2]
    assert found.end_scores.tolist() == [-3, -5]


def test_beams_that_hold_no_span_give_the_empty_answer(question):
    beam = {name: np.zeros(1, int) for name in BEAM_NAMES}

    found = predictions.spans_of_beams(question, [beam], LIMITS)

    (best,) = predictions.best_spans(question, found, LIMITS)
    assert best.text == ""
