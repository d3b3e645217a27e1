import pytest
import tensorflow as tf

from albert_tf.serving.text_normalization import (
    SentencePieceNormalization,
    WordPieceNormalization,
)
from albert_tf.text import normalization

TEXTS = [
    "  Two \t words\n",
    "",
    " ",
    "Café ﬁ １２３ ½",
    "ΑΣ ΑΣ'Α Σ A.Σ\u00ad",
    "İ ŉ ẞ",
    "\u0301a\u0301 \u0301",
    "a\U0001d165\u302e\U0001d16d\u0301 \u302e\U0001d165",
    "¨¨",
    "a\u200bb\x01\x00c",
    "漢字a!b",
]


def rows_of(found):
    """Returns text, raw starts and raw ends of each row."""
    for row, raw_length in enumerate(found.raw_lengths.numpy().tolist()):
        mask = found.row_ids.numpy() == row
        yield (
            "".join(map(chr, found.code_points.numpy()[mask])),
            found.raw_starts.numpy()[mask].tolist(),
            found.raw_ends.numpy()[mask].tolist(),
            raw_length,
        )


def normalize_traced(text, *, do_lower_case):
    normalized = normalization.normalize(text, do_lower_case=do_lower_case)
    return normalization.trace_all([text], [normalized])


def split_words_traced(text, *, do_lower_case):
    return normalization.split_words_traced(text, do_lower_case=do_lower_case)[
        0
    ]


@pytest.mark.parametrize("do_lower_case", [True, False], ids=["lower", "cased"])
@pytest.mark.parametrize(
    ("graph_class", "normalize"),
    [
        (SentencePieceNormalization, normalize_traced),
        (WordPieceNormalization, split_words_traced),
    ],
)
def test_text_and_places_are_those_of_python(
    graph_class, normalize, do_lower_case
):
    graph = graph_class(do_lower_case=do_lower_case)

    found = rows_of(graph(tf.constant(TEXTS)))

    for text, row in zip(TEXTS, found, strict=True):
        traced = normalize(text, do_lower_case=do_lower_case)
        assert row == (
            "".join(" " if c.isspace() else c for c in traced.text),
            traced.starts.tolist(),
            traced.ends.tolist(),
            traced.raw_size,
        )


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
