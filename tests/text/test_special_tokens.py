import string

import pytest

from albert_tf.text import special_tokens


def test_special_ids_are_found_by_name():
    ids = {"[MASK]": 7, "a": 1, "<pad>": 5, "[SEP]": 0, "[CLS]": 2, "<unk>": 9}

    assert special_tokens.find_special_ids(
        ids, special_tokens.SENTENCEPIECE_NAMES, "any.model"
    ) == special_tokens.SpecialIds(pad=5, unk=9, cls=2, sep=0, mask=7)


def test_missing_special_tokens_are_named_with_the_file():
    ids = {"[PAD]": 0, "[UNK]": 1, "[SEP]": 2}

    with pytest.raises(
        ValueError, match=r"my.txt: .* no token \[CLS\], \[MASK\], which"
    ):
        special_tokens.find_special_ids(
            ids, special_tokens.WORDPIECE_NAMES, "my.txt"
        )


@pytest.mark.parametrize(
    ("token", "starts"),
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
def test_what_starts_a_word(token, starts):
    assert special_tokens.sentencepiece_word_starts([token]).tolist() == [
        starts
    ]


def test_every_punctuation_mark_starts_a_word():
    tokens = list(string.punctuation)

    assert special_tokens.sentencepiece_word_starts(tokens).all()


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [(["a", "##a", "#", "[CLS]"], [True, False, True, True]), ([], [])],
)
def test_only_continuations_do_not_start_a_word_of_wordpiece(tokens, expected):
    assert special_tokens.wordpiece_word_starts(tokens).tolist() == expected
