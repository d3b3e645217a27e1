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


def raw_spans(traced, spans):
    """`TracedText.raw_spans` as a list of (start, end)."""
    return list(map(tuple, traced.raw_spans(spans).T.tolist()))


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
