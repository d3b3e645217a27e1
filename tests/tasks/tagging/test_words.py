"""Where the words of a text are, and which tokens are theirs."""

import re

import numpy as np
import pytest

from albert_tf.tasks.tagging import words
from albert_tf.text.tokenizer import load_tokenizer
from tests.tasks.tagging.conftest import NASTY


def found_in(text, kind=words.SPACED, added=()):
    return re.findall(words.word_pattern(kind, added), text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Angela Merkel, Paris.", "Angela|Merkel|,|Paris|."),
        ("In the U.S. 3.5% (1,000), $5", "In|the|U.S|.|3.5|%|(|1,000|)|,|$|5"),
        ("don't 'Don’t' e-mail AT&T", "don't|'|Don’t|'|e-mail|AT&T"),
        ("Bonn,Ulm 1/2 10:30am at:", "Bonn|,|Ulm|1/2|10:30am|at|:"),
        ("@a_1 #tag C# a@b.de _x_", "@a_1|#tag|C|#|a@b.de|_x_"),
        ("Well... what?!!", "Well|...|what|?|!!"),
        ("他叫Anna，今年３．５岁。", "他|叫|Anna|，|今|年|３|．|５|岁|。"),
        ("です。また", "で|す|。|ま|た"),
        ("ไปที่นี่ 3 ວັນ", "ไ|ป|ที่|นี่|3|ວັ|ນ"),
        ("Hi😀😀--!", "Hi|😀|😀|--|!"),
        (
            "cafe\u0301's\t\r\n\u2028b\u00a0c\0\u200b",
            "cafe\u0301's|b|c\0\u200b",
        ),
        ("", ""),
        (" \n", ""),
    ],
)
def test_words_of_raw_text(text, expected):
    assert found_in(text) == [*filter(None, expected.split("|"))]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (
            words.APART,
            "Ann-Lee/Bo's 1,000 #tag",
            "Ann|-|Lee|/|Bo|'|s|1,000|#|tag",
        ),
        (words.SPACED, "see [E1]Ann-Lee[/E1].", "see|[E1]|Ann-Lee|[/E1]|."),
        (words.APART, "see [E1]Ann-Lee[/E1].", "see|[E1]|Ann|-|Lee|[/E1]|."),
        # Added words are no parts of others.
        (words.SPACED, "airy air", "airy|air"),
        (words.CHARACTERS, "a [E1]\n人", "a| |[E1]|\n|人"),
    ],
)
def test_words_of_other_kinds(kind, text, expected):
    added = (("[/E1]", r"\[/E1\]"), ("[E1]", r"\[E1\]"), ("air", "air"))

    assert found_in(text, kind, added) == expected.split("|")


def test_new_words_of_letters_are_whole_words(tiny_spm_model):
    old = load_tokenizer(spm_model_file=tiny_spm_model)
    new = old.with_tokens(["falkon", "x-ray", "c++"])

    found = words.split("falkons x-rays FALKON c++", new, words.SPACED)

    sizes = np.diff(found.token_splits).tolist()
    assert sizes == [
        len(new.encode("falkons")),
        len(new.encode("x-rays")),
        1,
        1,
    ]


def test_words_are_all_of_a_text_but_white_space():
    for text in NASTY:
        assert "".join(found_in(text)) == "".join(text.split())


@pytest.mark.parametrize("kind", [words.SPACED, words.TOKENS])
@pytest.mark.parametrize("name", ["english", "chinese"])
def test_tokens_of_a_text_are_those_of_its_words(name, kind, graph_of):
    tokenizer = graph_of(name).tokenizer
    for text in NASTY:
        found = words.split(text, tokenizer, kind)

        ids = tokenizer.encode(text)
        if kind == words.SPACED:
            spaced = " ".join(found_in(text))
            ids = tokenizer.encode(spaced)
        assert found.ids.tolist() == ids
        assert found.token_splits[-1] == len(ids)
        assert len(found.token_splits) == 1 + len(found.starts)
        assert (found.token_splits[1:] >= found.token_splits[:-1]).all()
        assert (found.ends >= found.starts).all()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        # The mark alone is a word of its own for transformers.
        (
            "english",
            "Angela's, (x) 漢字!",
            ["Angela's,", "", "(x)", "", "漢字!"],
        ),
        ("chinese", "Angela's 漢字!", ["Angela", "'", "s", "漢", "字", "!"]),
    ],
)
def test_words_of_tokens(name, text, expected, graph_of):
    found = words.split(text, graph_of(name).tokenizer, words.TOKENS)

    spans = zip(found.starts, found.ends, strict=True)
    assert [text[start:end] for start, end in spans] == expected


@pytest.mark.parametrize("kind", [words.SPACED, words.APART])
def test_marks_within_new_words_leave_them_whole(kind, tiny_spm_model):
    old = load_tokenizer(spm_model_file=tiny_spm_model)
    new = old.with_tokens(["x-ray", "c++", "[E1]"])
    text = "x-rays X-Ray c++x C++ [E1]x"

    found = words.split(text, new, kind)

    spans = zip(found.starts, found.ends, strict=True)
    expected = ["x-rays", "X-Ray", "c++x", "C++", "[E1]", "x"]
    assert [text[start:end] for start, end in spans] == expected
