import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.text import word_splitting
from tests.text.text_files import hard_texts


def options_of(do_lower_case):
    return {"do_lower_case": do_lower_case, "keep_accents": not do_lower_case}


@given(hard_texts, st.booleans())
def test_traced_words_equal_split_words(text, do_lower_case):
    options = options_of(do_lower_case)
    traced, words = word_splitting.split_words_traced(text, **options)

    assert [traced.text[start:end] for start, end in words] == (
        word_splitting.split_words(text, **options)
    )


@pytest.mark.parametrize(
    ("text", "do_lower_case", "words"),
    [
        ("it's 5,3", True, ["it", "'", "s", "5", ",", "3"]),
        ("中文abc。", True, ["中", "文", "abc", "。"]),
        ("a\x00b\ufffdc\u200bd\x0be", True, ["abcde"]),
        ("$a^b", True, ["$", "a", "^", "b"]),
        ("ÀÉ İ", True, ["ae", "i"]),
        ("x\u2028y\u3000z", True, ["x", "y", "z"]),
        ("Été!", False, ["Été", "!"]),
    ],
)
def test_words_for_wordpiece(text, do_lower_case, words):
    options = options_of(do_lower_case)
    assert word_splitting.split_words(text, **options) == words
