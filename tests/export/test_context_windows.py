import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import context_windows
from albert_tf.export.tokens import Tokens
from albert_tf.tasks.squad import windows as windows_lib
from albert_tf.tasks.squad.windows import WindowLengths

SIZES = [(2, 0), (0, 1), (1, 9), (9, 30), (3, 31), (4, 100)]


def tokens_of(sizes):
    """Tokens of questions and contexts, numbered from 100."""
    lengths = [q for q, _ in sizes] + [c for _, c in sizes]
    return Tokens(
        ids=100 + tf.range(sum(lengths)),
        row_ids=tf.repeat(tf.range(len(lengths)), lengths),
        num_rows=tf.constant(len(lengths)),
    )


@pytest.mark.parametrize(
    ("max_seq_length", "doc_stride"), [(12, 3), (12, 40), (20, 1), (38, 8)]
)
def test_windows_and_owners_are_those_of_python(max_seq_length, doc_stride):
    lengths = WindowLengths(
        max_seq_length=max_seq_length,
        doc_stride=doc_stride,
        max_query_length=5,
    )
    tokens = tokens_of(SIZES)

    found = context_windows.split_contexts(tokens, lengths)
    owners = context_windows.best_windows(found, tf.size(tokens.ids)).numpy()

    number = 0
    first = sum(q for q, _ in SIZES)
    for row, (question, context) in enumerate(SIZES):
        kept = min(question, 5)
        expected = windows_lib.split_windows(
            context, size=max_seq_length - kept - 3, stride=doc_stride
        )
        own = slice(number, number + len(expected))
        assert set(found.rows[own].numpy()) == {row}
        assert found.contexts.starts[own].numpy().tolist() == [
            first + window.start for window in expected
        ]
        assert found.contexts.sizes[own].numpy().tolist() == [
            window.size for window in expected
        ]
        assert set(found.offsets[own].numpy()) == {kept + 2}
        np.testing.assert_array_equal(
            owners[first : first + context],
            number + windows_lib.best_windows(context, expected),
        )
        number, first = own.stop, first + context
    assert number == len(found.rows)
