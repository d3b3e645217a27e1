"""Lengths of the parts of a sequence that are not given."""

import pytest

from albert_tf.tasks.race.examples import ChoiceLengths
from albert_tf.tasks.squad.windows import WindowLengths


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (384, 128, 64)),
        ({"max_seq_length": 64, "doc_stride": None, "other": 1}, (64, 128, 32)),
        ({"max_seq_length": 64, "max_query_length": 24}, (64, 128, 24)),
        ({"max_seq_length": 512, "doc_stride": 256}, (512, 256, 64)),
    ],
)
def test_parts_fit_in_a_sequence(given, expected):
    found = WindowLengths.within(given)

    lengths = found.max_seq_length, found.doc_stride, found.max_query_length
    assert lengths == expected


def test_a_part_that_is_given_is_not_shortened():
    with pytest.raises(ValueError, match=r"max_qa_length.*at most 60"):
        ChoiceLengths.within({"max_seq_length": 64, "max_qa_length": 128})
