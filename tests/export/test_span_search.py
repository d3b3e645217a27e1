import numpy as np
import tensorflow as tf

from albert_tf.export import span_search
from albert_tf.export.span_search import Allowed, Spans

STARTS = tf.constant([[1.0, 5.0, 3.0, 5.0]])
ENDS = tf.constant([[2.0, 0.0, 4.0, 1.0]])


def listed(spans):
    """Returns start, end and score of the spans of the first window."""
    columns = (spans.starts[0], spans.ends[0], spans.scores[0])
    return list(zip(*(c.numpy().tolist() for c in columns), strict=True))


def allowed(is_start=(1, 1, 1, 1), is_end=(1, 1, 1, 1), max_answer_length=4):
    return Allowed(
        is_start=tf.constant([is_start]) > 0,
        is_end=tf.constant([is_end]) > 0,
        max_answer_length=max_answer_length,
    )


def test_the_likeliest_starts_with_the_likeliest_ends():
    found = span_search.likeliest_spans(STARTS, ENDS, 2)

    assert listed(found) == [(1, 2, 9), (1, 0, 7), (3, 2, 9), (3, 0, 7)]
    assert len(listed(span_search.likeliest_spans(STARTS, ENDS, 20))) == 16


def test_all_spans_up_to_a_length():
    found = span_search.all_spans(STARTS, ENDS, 2)

    assert listed(found) == [
        (0, 0, 3),
        (0, 1, 1),
        (1, 1, 5),
        (1, 2, 9),
        (2, 2, 7),
        (2, 3, 4),
        (3, 3, 6),
    ]


def test_spans_of_beams():
    found = span_search.beam_spans(
        {
            "start_top_index": tf.constant([[4, 2]]),
            "start_top_log_probs": tf.constant([[-1.0, -2.0]]),
            "end_top_index": tf.constant([[5, 6, 2, 3]]),
            "end_top_log_probs": tf.constant([[-0.5, -0.25, -1.0, -3.0]]),
        },
        2,
    )

    assert listed(found) == [
        (4, 5, -1.5),
        (4, 6, -1.25),
        (2, 2, -3),
        (2, 3, -5),
    ]


def test_the_best_candidate_of_a_window():
    spans = span_search.all_spans(STARTS, ENDS, 4)

    def best(**values):
        return listed(span_search.best_of_windows(spans, allowed(**values)))

    assert best() == [(1, 2, 9)]
    assert best(max_answer_length=1) == [(2, 2, 7)]
    assert best(is_start=(0, 0, 1, 1)) == [(2, 2, 7)]
    assert best(is_end=(0, 1, 0, 1)) == [(1, 3, 6)]
    assert best(is_start=(0, 0, 0, 0))[0][2] == -np.inf


def test_of_spans_that_are_as_good_the_first_counts():
    spans = Spans(
        starts=tf.constant([[0, 3, 1]]),
        ends=tf.constant([[0, 3, 1]]),
        scores=tf.constant([[1.0, 2.0, 2.0]], tf.float64),
    )

    found = span_search.best_of_windows(spans, allowed())

    assert listed(found) == [(3, 3, 2)]


def test_a_span_that_ends_before_it_starts_is_none():
    spans = span_search.likeliest_spans(STARTS, ENDS, 1)

    found = span_search.best_of_windows(
        Spans(starts=spans.ends, ends=spans.starts, scores=spans.scores),
        allowed(),
    )

    assert listed(found)[0][2] == -np.inf


def test_the_best_window_of_each_question():
    infinite = -np.inf
    scores = tf.constant([1.0, 3.0, 3.0, infinite, 0.0, infinite], tf.float64)
    rows = tf.constant([0, 0, 0, 1, 2, 2])

    found = span_search.best_window(scores, rows, tf.constant(3))

    assert found.numpy().tolist() == [1, 6, 4]
