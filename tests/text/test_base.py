import itertools

import pytest

from albert_tf.text import base
from albert_tf.text.vocabulary_file import SpecialIds

SPECIAL = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4)


def encode(ids_a, ids_b, length):
    return base.encode_pair(
        ids_a, ids_b, max_seq_length=length, special=SPECIAL
    )


@pytest.mark.parametrize(
    ("ids_a", "ids_b", "length", "expected"),
    [
        ([7, 8], [9], 9, ([2, 7, 8, 3, 9, 3], [0, 0, 0, 0, 1, 1])),
        # An empty second text is none; an empty first text is one.
        ([7, 8], [], 9, ([2, 7, 8, 3], [0, 0, 0, 0])),
        ([], [9], 5, ([2, 3, 9, 3], [0, 0, 1, 1])),
        ([], [], 3, ([2, 3], [0, 0])),
        # A text alone is cut at its end; texts that just fit are not.
        (range(10, 20), [], 5, ([2, 10, 11, 12, 3], [0] * 5)),
        ([7, 8], [9, 10], 7, ([2, 7, 8, 3, 9, 10, 3], [0] * 4 + [1] * 3)),
    ],
)
def test_texts_are_joined_with_special_tokens(ids_a, ids_b, length, expected):
    assert encode(ids_a, ids_b, length) == expected


def test_the_lengths_are_those_of_taking_the_last_token_of_the_longer_text():
    for length_a, length_b, room in itertools.product(
        range(12), range(12), range(2, 12)
    ):
        a, b = length_a, length_b
        while a + b > room:
            if a > b:
                a -= 1
            else:
                b -= 1

        num_around = 3 if length_b else 2
        ids, _ = encode([7] * length_a, [8] * length_b, room + num_around)

        found = ids.count(7), ids.count(8)
        assert found == (a, b), (length_a, length_b, room)


@pytest.mark.parametrize(("ids_b", "length"), [([], 2), ([9], 4)])
def test_a_length_without_room_for_each_text_is_refused(ids_b, length):
    with pytest.raises(ValueError, match="room for a token of each text"):
        encode([7], ids_b, length)

    encode([7], ids_b, length + 1)
