import math

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import text_words
from albert_tf.export.unigram_search import UnigramSearch, Vocabulary


def cut(search, *rows):
    """Returns begin and id of each piece, rows one after the other."""
    code_points = [*map(ord, "".join(rows))]
    row_ids = [i for i, row in enumerate(rows) for _ in row]
    words = text_words.whole(tf.constant([f"{i}" for i in range(len(rows))]))

    @tf.function(autograph=False)
    def run(code_points, row_ids):
        pieces, new_words = search(code_points, row_ids, words)
        found = tf.stack([pieces.begins, pieces.ids], 1)
        return found, pieces.row_ids, new_words.numbers

    found, kinds, numbers = run(
        tf.constant(code_points, tf.int32), tf.constant(row_ids, tf.int32)
    )
    return [
        tuple(piece)
        for number in numbers.numpy()
        for piece in found.numpy()[kinds.numpy() == number].tolist()
    ]


def make(scores, user_defined=()):
    pieces = [*scores, *user_defined]
    return UnigramSearch(
        Vocabulary(
            scores=scores,
            user_defined=frozenset(user_defined),
            ids={piece: i + 1 for i, piece in enumerate(pieces)},
            unknown_id=0,
        )
    )


@pytest.mark.parametrize(
    ("scores", "user_defined", "rows", "expected"),
    [
        pytest.param(
            {"a": -1.0, "b": -1.0, "ab": -1.5, "bc": -1.2, "c": -5.0},
            (),
            ["abc", "ab"],
            [(0, 1), (1, 4), (3, 3)],
            id="the best total wins",
        ),
        pytest.param(
            {"a": -1.0},
            (),
            ["xa", ""],
            [(0, 0), (1, 1)],
            id="a character without a piece",
        ),
        pytest.param(
            {"e": -1.0, "ee": -1.0},
            (),
            ["eee"],
            [(0, 1), (1, 2)],
            id="of equal totals, the longest last piece wins",
        ),
        pytest.param(
            {"a": -1.0, "b": -1.0, "ab": -0.2},
            ["b("],
            ["ab("],
            [(0, 1), (1, 4)],
            id="a user-defined piece wins",
        ),
        pytest.param({"a": -1.0}, (), ["", ""], [], id="no text"),
    ],
)
def test_the_segmentation(scores, user_defined, rows, expected):
    assert cut(make(scores, user_defined), *rows) == expected


@pytest.mark.parametrize("seed", range(3))
def test_the_search_against_all_cuts(seed):
    rng = np.random.default_rng(seed)
    pieces = {"".join(rng.choice([*"abc"], n)) for n in [1, 2, 3, 4] * 6}
    pieces |= {"a", "b", "c"}
    scores = {p: float(np.float32(-rng.random())) for p in sorted(pieces)}
    texts = ["".join(rng.choice([*"abc"], n)) for n in (11, 1, 7)]

    found = cut(make(scores), *texts)

    names = [None, *scores]
    total = sum(scores[names[i]] for _, i in found)
    assert "".join(names[i] for _, i in found) == "".join(texts)
    assert math.isclose(
        total, sum(best(text, scores) for text in texts), rel_tol=1e-5
    )


def best(text, scores):
    if not text:
        return 0.0
    return max(
        (
            scores[text[:n]] + best(text[n:], scores)
            for n in range(1, len(text) + 1)
            if text[:n] in scores
        ),
        default=-math.inf,
    )
