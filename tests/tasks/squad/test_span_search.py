import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.span_models import SpanModel
from albert_tf.serving.exported_encoder import ExportedWeights
from albert_tf.tasks.squad import span_search
from albert_tf.tasks.squad.predictions import SpanLimits
from albert_tf.tasks.squad.span_search import LogitScorer, SpanTensors
from tests.exported_models import TINY_CONFIG

STARTS = tf.constant([[1.0, 5.0, 3.0, 5.0]])
ENDS = tf.constant([[2.0, 0.0, 4.0, 1.0]])


def listed(spans):
    """Returns start, end and score of the spans of the first window."""
    columns = (spans.starts[0], spans.ends[0], spans.scores[0])
    return list(zip(*(c.numpy().tolist() for c in columns), strict=True))


def best_of(spans, **limits):
    everywhere = tf.fill([1, 4], True)
    limits = {"is_start": everywhere, "is_end": everywhere} | limits
    limits = {"max_answer_length": 4} | limits
    return listed(span_search.best_spans(spans, **limits))


BEAMS = {
    "start_top_index": tf.constant([[4, 2]]),
    "start_top_log_probs": tf.constant([[-1.0, -2.0]]),
    "end_top_index": tf.constant([[5, 6, 2, 3]]),
    "end_top_log_probs": tf.constant([[-0.5, -0.25, -1.0, -3.0]]),
}


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        pytest.param(
            span_search.likeliest_spans(STARTS, ENDS, 2),
            [(1, 2, 9), (1, 0, 7), (3, 2, 9), (3, 0, 7)],
            id="the likeliest starts with the likeliest ends",
        ),
        pytest.param(
            span_search.all_spans(STARTS, ENDS, 2),
            [(0, 0, 3), (0, 1, 1), (1, 1, 5), (1, 2, 9)]
            + [(2, 2, 7), (2, 3, 4), (3, 3, 6)],
            id="all spans up to a length",
        ),
        pytest.param(
            span_search.beam_spans(BEAMS, 2),
            [(4, 5, -1.5), (4, 6, -1.25), (2, 2, -3), (2, 3, -5)],
            id="spans of beams",
        ),
    ],
)
def test_the_order_of_spans(spans, expected):
    assert listed(spans) == expected


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, (1, 2, 9)),
        ({"max_answer_length": 1}, (2, 2, 7)),
        ({"is_start": [[False, False, True, True]]}, (2, 2, 7)),
        ({"is_end": [[False, True, False, True]]}, (1, 3, 6)),
        ({"is_start": [[False] * 4]}, (0, 0, -np.inf)),
    ],
)
def test_the_best_valid_span_of_a_window(limits, expected):
    spans = span_search.all_spans(STARTS, ENDS, 4)

    assert best_of(spans, **limits) == [expected]


def test_of_equally_good_spans_the_first_counts():
    spans = SpanTensors(
        starts=tf.constant([[0, 3, 1]]),
        ends=tf.constant([[0, 3, 1]]),
        scores=tf.constant([[1.0, 2.0, 2.0]], tf.float64),
    )

    assert best_of(spans) == [(3, 3, 2)]


def test_a_span_that_ends_before_it_starts_is_not_valid():
    spans = span_search.likeliest_spans(STARTS, ENDS, 1)
    reversed_spans = SpanTensors(
        starts=spans.ends, ends=spans.starts, scores=spans.scores
    )

    assert best_of(reversed_spans)[0][2] == -np.inf


def test_the_best_window_of_each_question():
    infinite = -np.inf
    scores = tf.constant([1.0, 3.0, 3.0, infinite, 0.0, infinite], tf.float64)
    rows = tf.constant([0, 0, 0, 1, 2, 2])

    found = span_search.best_window(scores, rows, tf.constant(3))

    assert found.numpy().tolist() == [1, 6, 4]


MASK = tf.constant([[1] * 7 + [0], [1] * 4 + [0] * 4])


def test_padding_is_never_among_the_likeliest():
    model = SpanModel(TINY_CONFIG)
    weights = ExportedWeights(model.weights, precision="float32")
    logits = tf.constant([[0.0, 1, 2, 3, 9, 9, 9, 9]] * 2)
    outputs = {"start_logits": logits, "end_logits": logits}
    exported = types.SimpleNamespace(model=model, weights=weights)
    scorer = LogitScorer(exported, compares_null=False)

    likeliest, every = scorer.spans(outputs, MASK, SpanLimits(n_best_size=2))

    assert set(likeliest.starts[1].numpy()) == {2, 3}
    assert set(every.starts[1].numpy()) == set(range(8))
    assert scorer.null_scores(outputs).numpy().tolist() == [0, 0]
