import tensorflow as tf

from albert_tf.serving.text_normalization import SentencePieceNormalization
from albert_tf.text import normalization


def normalize_traced(text, *, do_lower_case):
    normalized = normalization.normalize(text, do_lower_case=do_lower_case)
    return normalization.trace_all([text], [normalized])


def test_spans_are_mapped_as_in_python():
    text = " a  ½\u0301 ¨b "
    graph = SentencePieceNormalization(do_lower_case=True)
    traced = normalize_traced(text, do_lower_case=True)
    size = len(traced.text)
    found = graph(tf.constant(["x y", text, ""]))

    # One after the other, of any sizes.
    for step in range(1, size + 1):
        spans = [(a, min(a + step, size)) for a in range(0, size, step)]
        raw_spans = found.raw_spans(
            tf.constant([a + 3 for a, _ in spans]),
            tf.constant([b + 3 for _, b in spans]),
            tf.ones(len(spans), tf.int32),
        )

        expected = traced.raw_spans(spans).tolist()
        assert [ends.numpy().tolist() for ends in raw_spans] == expected
