import numpy as np
import pytest

from albert_tf.tasks.squad import predictions
from albert_tf.tasks.squad.predictions import BEAM_NAMES, SpanLimits

LIMITS = SpanLimits()


@pytest.fixture
def question(make_example, make_question):
    return make_question(make_example())


def spans_of(question, starts, ends, limits):
    outputs = {"start_logits": starts, "end_logits": ends}
    return predictions.spans_of_logits(question, outputs, limits)


def answers_of(question, starts, ends, limits=LIMITS):
    spans = spans_of(question, starts, ends, limits)
    return predictions.best_spans(question, spans, limits).spans


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
    row = np.zeros(question.offset + len(question.windows[0]) + 1)

    (best,) = answers_of(question, [row], [row])

    assert (best.text, best.probability) == ("", 1)
    assert best.start_log_prob == best.end_log_prob == predictions.NO_SPAN_SCORE


def test_beams_that_hold_no_span_give_the_empty_answer(question):
    beam = {name: np.zeros((1, 1), int) for name in BEAM_NAMES}

    found = predictions.spans_of_beams(question, beam, LIMITS)

    (best,) = predictions.best_spans(question, found, LIMITS).spans
    assert best.text == ""
