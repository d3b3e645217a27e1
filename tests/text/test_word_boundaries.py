import string

import pytest

from albert_tf.text import word_boundaries


@pytest.mark.parametrize(
    ("piece", "starts"),
    [
        ("▁the", True),
        ("ing", False),
        ("ING", False),  # of a cased vocabulary
        ("<unk>", True),
        ("[MASK]", False),  # English letters and punctuation
        (".", True),
        ("://", False),
        ("'", True),
        ("'s", True),
        ("7", True),
        ("é", True),
        ("aé", True),
        ("£", True),
        ("=", True),
        ("▁", True),
    ],
)
def test_what_starts_a_unit_of_masking(piece, starts):
    assert word_boundaries.sentencepiece_word_starts([piece]).tolist() == [
        starts
    ]


def test_every_punctuation_mark_is_a_unit():
    pieces = list(string.punctuation)

    assert word_boundaries.sentencepiece_word_starts(pieces).all()


def test_only_continuations_do_not_start_a_word_of_wordpiece():
    starts = word_boundaries.wordpiece_word_starts(["a", "##a", "#", "[CLS]"])

    assert starts.tolist() == [True, False, True, True]


def test_empty_vocabularies_are_fine():
    assert word_boundaries.sentencepiece_word_starts([]).shape == (0,)
    assert word_boundaries.wordpiece_word_starts([]).shape == (0,)
