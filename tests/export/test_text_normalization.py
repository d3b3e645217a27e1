import pytest
import tensorflow as tf

from albert_tf.export.text_normalization import (
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


@pytest.fixture(scope="module", params=[True, False], ids=["lower", "cased"])
def do_lower_case(request):
    return request.param


def rows(found):
    """Text, raw starts and raw ends of each row."""
    result = []
    for row in range(found.raw_lengths.shape[0]):
        mask = found.row_ids.numpy() == row
        result.append(
            (
                "".join(map(chr, found.code_points.numpy()[mask])),
                found.raw_starts.numpy()[mask].tolist(),
                found.raw_ends.numpy()[mask].tolist(),
                int(found.raw_lengths[row]),
            )
        )
    return result


def expected(traced):
    return (
        "".join(" " if c.isspace() else c for c in traced.text),
        traced.starts.tolist(),
        traced.ends.tolist(),
        traced.raw_size,
    )


def test_normalisation_for_sentencepiece(do_lower_case):
    graph = SentencePieceNormalization(do_lower_case=do_lower_case)

    assert rows(graph(tf.constant(TEXTS))) == [
        expected(
            normalization.normalize_traced(text, do_lower_case=do_lower_case)
        )
        for text in TEXTS
    ]


def test_normalisation_for_wordpiece(do_lower_case):
    graph = WordPieceNormalization(do_lower_case=do_lower_case)

    assert rows(graph(tf.constant(TEXTS))) == [
        expected(
            normalization.split_words_traced(text, do_lower_case=do_lower_case)[
                0
            ]
        )
        for text in TEXTS
    ]


def test_spans_are_mapped_as_in_python():
    text = " a  ½\u0301 ¨b "
    graph = SentencePieceNormalization(do_lower_case=True)
    traced = normalization.normalize_traced(text, do_lower_case=True)
    size = len(traced.text)
    spans = [(a, b) for a in range(size + 1) for b in range(a, size + 1)]
    found = graph(tf.constant(["x y", text, ""]))

    starts, ends = found.raw_spans(
        tf.constant([a + 3 for a, _ in spans]),
        tf.constant([b + 3 for _, b in spans]),
        tf.ones(len(spans), tf.int32),
    )

    assert [
        starts.numpy().tolist(),
        ends.numpy().tolist(),
    ] == traced.raw_spans(spans).tolist()
