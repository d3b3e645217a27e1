import math

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export.unigram_search import (
    NOTHING,
    Trie,
    UnigramSearch,
    Vocabulary,
)


def walk(trie, *rows, states=None):
    text = "".join(rows)
    row_ids = [i for i, row in enumerate(rows) for _ in row]
    found = trie.walk(
        tf.constant([*map(ord, text)], tf.int32),
        tf.constant(row_ids, tf.int32),
        states,
    )
    return np.stack(found, 1).tolist()


@pytest.mark.parametrize(
    ("numbers", "rows", "expected"),
    [
        (
            {"a": 0, "ab": 5, "b": 2, "bab": 1},
            ["abab", "c"],
            [
                [0, 5, NOTHING],
                [2, NOTHING, 1],
                [0, 5, NOTHING],
                [2, NOTHING, NOTHING],
                [NOTHING] * 3,
            ],
        ),
        # Sequences lie within a row.
        ({"ab": 0}, ["a", "b"], [[NOTHING] * 2] * 2),
        # Numbers that need more than 16 bits.
        ({"a": 70_000}, ["a"], [[70_000]]),
    ],
)
def test_sequences_that_start_at_each_place(numbers, rows, expected):
    assert walk(Trie(numbers), *rows) == expected


def test_beginning_after_a_prefix():
    trie = Trie({"\0a": 1, "\1a": 2, "\1ab": 3})
    states = tf.constant([trie.state("\0"), trie.state("\1"), -1])

    assert walk(trie, "a", "ab", states=states) == [
        [1, NOTHING, NOTHING],
        [2, 3, NOTHING],
        [NOTHING] * 3,
    ]
    assert trie.state("x") == -1


def test_a_trie_against_a_search():
    rng = np.random.default_rng(0)
    sizes = [1, 2, 3, 4] * 9
    sequences = {"".join(rng.choice([*"abcd"], size)) for size in sizes}
    numbers = {sequence: i for i, sequence in enumerate(sorted(sequences))}
    text = "".join(rng.choice([*"abcde"], 200))

    found = walk(Trie(numbers), text)

    assert found == [
        [
            numbers.get(text[i : i + k], NOTHING) if i + k <= len(text) else -1
            for k in range(1, 5)
        ]
        for i in range(len(text))
    ]


def test_an_empty_trie_finds_nothing():
    trie = Trie({})

    assert trie.depth == 0
    assert trie.walk(tf.constant([97]), tf.constant([0])) == []


def cut(search, *rows):
    text = "".join(rows)
    row_ids = [i for i, row in enumerate(rows) for _ in row]
    begins, ids = search(
        tf.constant([*map(ord, text)], tf.int32),
        tf.constant(row_ids, tf.int32),
        tf.constant(len(rows)),
    )
    return list(zip(begins.numpy().tolist(), ids.numpy().tolist(), strict=True))


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
