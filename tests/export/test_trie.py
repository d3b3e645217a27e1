import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export.trie import NOTHING, Trie


def find(trie, *rows, states=None, num_taken=0):
    """Returns, for each place, the number of the sequence of each size."""
    text = "".join(rows)
    row_ids = [i for i, row in enumerate(rows) for _ in row]
    matches = trie.matches(
        tf.constant([*map(ord, text)], tf.int32),
        tf.constant(row_ids, tf.int32),
        states,
        num_taken=num_taken,
    )
    found = np.full((len(text), trie.depth - num_taken), NOTHING)
    found[matches.places, matches.sizes - 1] = matches.numbers
    return found.tolist()


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
    assert find(Trie(numbers), *rows) == expected


def test_beginning_after_a_prefix():
    trie = Trie({"\0a": 1, "\1a": 2, "\1ab": 3})
    states = tf.constant([trie.state(s) for s in ("\0", "\1", "x")])

    assert find(trie, "a", "ab", states=states, num_taken=1) == [
        [1, NOTHING],
        [2, 3],
        [NOTHING] * 2,
    ]


@pytest.mark.parametrize("alphabet", ["abcd", "abcdefghijklmnopqrstuvwxyz"])
def test_a_trie_against_a_search(alphabet):
    rng = np.random.default_rng(0)
    sizes = [1, 2, 3, 4] * 99
    sequences = {"".join(rng.choice([*alphabet], size)) for size in sizes}
    numbers = {sequence: i for i, sequence in enumerate(sorted(sequences))}
    text = "".join(rng.choice([*alphabet, "é"], 2_000))

    found = find(Trie(numbers), text)

    assert found == [
        [
            numbers.get(text[i : i + k], NOTHING) if i + k <= len(text) else -1
            for k in range(1, 5)
        ]
        for i in range(len(text))
    ]


def test_the_longest_sequence():
    trie = Trie({"a": 3, "abc": 4, "b": 5})

    sizes, numbers = trie.longest(
        tf.constant([*map(ord, "abca")]), tf.constant([0, 0, 0, 0])
    )

    assert sizes.numpy().tolist() == [3, 1, 0, 1]
    assert numbers.numpy().tolist() == [4, 5, NOTHING, 3]


def test_an_empty_trie_finds_nothing():
    trie = Trie({})

    assert trie.depth == 0
    assert find(trie, "a") == [[]]
