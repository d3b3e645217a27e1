import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.text import normalization
from tests.text.text_files import hard_texts


def reference_normalize(text, do_lower_case):
    """tokenization.preprocess_text of the original, said again."""
    text = " ".join(text.strip().split())
    text = unicodedata.normalize("NFKD", text)
    text = "".join(c for c in text if not unicodedata.combining(c))
    return text.lower() if do_lower_case else text


@given(hard_texts, st.booleans())
def test_normalize_equals_the_reference(text, do_lower_case):
    assert normalization.normalize(
        text, do_lower_case=do_lower_case
    ) == reference_normalize(text, do_lower_case)


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
    normalized = normalization.normalize(text, do_lower_case=True)

    traced = normalization.trace_all([text], [normalized])

    assert [*map(tuple, traced.raw_spans(spans).T.tolist())] == expected
