import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.text import normalization

# Letters with accents in both forms, ligatures, fractions, Hangul, spaces of
# several kinds, controls, and characters that lower-case oddly.
_HARD = "aZ é\u0301ñ\tﬁ½1,İΣσ한\u1112\u1161\u00a0\u3000\x00\x1c你！\u0345ẞ$^"
texts = st.text(max_size=40) | st.text(st.sampled_from(_HARD), max_size=40)


def reference_normalize(text, do_lower_case):
    """tokenization.preprocess_text of the original, said again."""
    text = " ".join(text.strip().split())
    text = unicodedata.normalize("NFKD", text)
    text = "".join(c for c in text if not unicodedata.combining(c))
    return text.lower() if do_lower_case else text


def traced_text(text, *, do_lower_case=True):
    normalized = normalization.normalize(text, do_lower_case=do_lower_case)
    return normalization.trace_all([text], [normalized])


@settings(deadline=None)
@given(texts, st.booleans())
def test_normalize_equals_the_reference(text, do_lower_case):
    assert normalization.normalize(
        text, do_lower_case=do_lower_case
    ) == reference_normalize(text, do_lower_case)


@settings(deadline=None)
@given(texts, st.booleans())
def test_traced_words_equal_split_words(text, do_lower_case):
    traced, words = normalization.split_words_traced(
        text, do_lower_case=do_lower_case
    )

    assert [traced.text[start:end] for start, end in words] == (
        normalization.split_words(text, do_lower_case=do_lower_case)
    )


@settings(deadline=None)
@given(st.lists(texts, max_size=5), st.booleans())
def test_many_texts_are_traced_as_one_by_one(batch, do_lower_case):
    rows = [traced_text(text, do_lower_case=do_lower_case) for text in batch]

    found = normalization.trace_all(batch, [row.text for row in rows])

    assert found.text == " ".join(row.text for row in rows)
    assert found.raw_size == len(" ".join(batch))
    assert len(found.starts) == len(found.ends) == len(found.text)
    begins = normalization.starts_of([row.text for row in rows])
    raw_begins = normalization.starts_of(batch)
    for row, begin, raw_begin in zip(rows, begins, raw_begins, strict=True):
        own = slice(begin, begin + len(row.text))
        assert (found.starts[own] - raw_begin).tolist() == row.starts.tolist()
        assert (found.ends[own] - raw_begin).tolist() == row.ends.tolist()
        # The space before a text is that before the raw one.
        if begin:
            assert found.starts[begin - 1] == raw_begin - 1


def raw_spans(traced, spans):
    """`TracedText.raw_spans` as a list of (start, end)."""
    return list(map(tuple, traced.raw_spans(spans).T.tolist()))


def reference_raw_spans(traced, spans):
    """`TracedText.raw_spans`, said again one by one."""
    raw = [(0, 0)]
    for start, end in spans:
        solid = [i for i in range(start, end) if traced.text[i] != " "]
        starts = [*traced.starts, traced.raw_size]
        span = (starts[end], starts[end])
        if solid:
            span = (traced.starts[solid[0]], traced.ends[solid[-1]])
        raw.append(tuple(map(max, span, raw[-1])))
    return raw[1:]


@settings(deadline=None)
@given(texts, st.booleans(), st.data())
def test_raw_spans_are_those_of_a_loop(text, do_lower_case, data):
    traced = traced_text(text, do_lower_case=do_lower_case)
    place = st.integers(0, len(traced.text))
    spans = data.draw(
        st.lists(st.tuples(place, place).map(lambda s: tuple(sorted(s))))
    )

    assert raw_spans(traced, spans) == reference_raw_spans(traced, spans)


@pytest.mark.parametrize(
    ("text", "spans", "expected"),
    [
        # The accent belongs to the e; the half is the origin of `1⁄2`.
        (" Cafe\u0301 ½", [(0, 4), (3, 4)], [(1, 6), (4, 6)]),
        (" Cafe\u0301 ½", [(5, 6), (6, 8)], [(7, 8), (7, 8)]),
        # Spaces around a span are left out.
        ("a   b", [(0, 2), (1, 3)], [(0, 1), (4, 5)]),
        # The span of a space is empty, where the next word starts.
        ("a   b  ", [(1, 2)], [(4, 4)]),
        ("a   b  ", [(3, 3)], [(7, 7)]),
        # An empty span inside one raw character does not run backwards.
        ("½", [(0, 1), (1, 1), (2, 3)], [(0, 1)] * 3),
    ],
)
def test_spans_are_traced_to_the_raw_text(text, spans, expected):
    assert raw_spans(traced_text(text), spans) == expected


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
    assert normalization.split_words(text, do_lower_case=do_lower_case) == words
