"""Where rounding decides, words depend on the words before them."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import text_words
from albert_tf.export.unigram_search import UnigramSearch, Vocabulary

# Sums of these differ by their rounding alone: `e ee` and `ee e`.
SCORES = {
    "▁": -3.1234567,
    "e": -2.7654321,
    "ee": -3.3333333,
    "▁a": -4.0000001,
    "a": -5.1111111,
    "▁e": -4.5432109,
    "o": -30.7777777,
    "oo": -61.5555554,
}
IDS = {piece: i + 1 for i, piece in enumerate(SCORES)}
NAMES = {i: piece for piece, i in IDS.items()}


@pytest.fixture(scope="module")
def run():
    search = UnigramSearch(
        Vocabulary(
            scores=SCORES, user_defined=frozenset(), ids=IDS, unknown_id=0
        )
    )

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
    )
    def traced(texts):
        words = text_words.split(texts)
        kinds = tf.strings.unicode_decode(words.strings, "UTF-8")
        pieces, words = search(
            kinds.values, tf.cast(kinds.value_rowids(), tf.int32), words
        )
        return pieces.ids, pieces.row_ids, words.numbers, words.row_ids

    def run(rows):
        """Returns the pieces of each word of each row, and the kinds."""
        texts = [" ".join(row) for row in rows]
        ids, kinds, numbers, row_ids = (
            values.numpy() for values in traced(tf.constant(texts))
        )
        found = [[] for _ in rows]
        for number, row in zip(numbers, row_ids, strict=True):
            found[row].append([NAMES[i] for i in ids[kinds == number]])
        return found, numbers

    return run


def library(row):
    """Returns the pieces of a row, by the additions of the library."""
    text = "".join(row)
    totals = [np.float32(0)] + [np.float32(-np.inf)] * len(text)
    sizes = [0] * (len(text) + 1)
    for end in range(1, len(text) + 1):
        for size in range(min(end, 2), 0, -1):
            piece = text[end - size : end]
            if piece in SCORES:
                total = totals[end - size] + np.float32(SCORES[piece])
                if total > totals[end]:
                    totals[end], sizes[end] = total, size
    pieces = []
    end = len(text)
    while end:
        pieces.insert(0, text[end - sizes[end] : end])
        end -= sizes[end]
    return pieces


def test_sums_are_rounded_as_in_the_library(run):
    rng = np.random.default_rng(0)
    words = ["▁eee", "▁ae", "▁oooo", "▁eaeeeae", "▁" + "e" * 200, "▁"]
    rows = [rng.choice(words, size).tolist() for size in (60, 1, 7, 300)]

    found, numbers = run(rows)

    for row, pieces in zip(rows, found, strict=True):
        assert sum(pieces, []) == library(row)
    # The choice differs between equal words of one row.
    variants = {
        tuple(pieces)
        for word, pieces in zip(rows[3], found[3], strict=True)
        if word == "▁oooo"
    }
    assert len(variants) > 1
    assert len(set(numbers)) > len(words)


def test_words_that_are_certain_are_segmented_once(run):
    rows = [["▁a"] * 50, ["▁a", "▁ae"]]

    found, numbers = run(rows)

    assert found == [[["▁a"]] * 50, [["▁a"], ["▁a", "e"]]]
    assert len(set(numbers)) == 2
