import numpy as np
import tensorflow as tf

from albert_tf.export.trie import NOTHING, Trie


def walk(trie, *rows, states=None):
    text = "".join(rows)
    row_ids = [i for i, row in enumerate(rows) for _ in row]
    found = trie.walk(
        tf.constant([*map(ord, text)], tf.int32),
        tf.constant(row_ids, tf.int32),
        states,
    )
    return np.stack(found, 1).tolist()


def test_what_begins_at_each_place():
    trie = Trie({"a": 0, "ab": 5, "b": 2, "bab": 1})

    assert trie.depth == 3
    assert walk(trie, "abab", "c") == [
        [0, 5, NOTHING],
        [2, NOTHING, 1],
        [0, 5, NOTHING],
        [2, NOTHING, NOTHING],
        [NOTHING] * 3,
    ]


def test_sequences_lie_within_a_row():
    assert walk(Trie({"ab": 0}), "a", "b") == [[NOTHING] * 2] * 2


def test_beginning_after_a_prefix():
    trie = Trie({"\0a": 1, "\1a": 2, "\1ab": 3})
    states = tf.constant([trie.state("\0"), trie.state("\1"), -1])

    assert walk(trie, "a", "ab", states=states) == [
        [1, NOTHING, NOTHING],
        [2, 3, NOTHING],
        [NOTHING] * 3,
    ]
    assert trie.state("x") == -1


def test_numbers_that_need_more_than_16_bits():
    assert walk(Trie({"a": 70_000}), "a") == [[70_000]]


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
