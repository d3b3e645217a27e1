import itertools

import numpy as np
import pytest

from albert_tf.text import sequence_pairs
from albert_tf.text.special_tokens import SpecialIds

SPECIAL = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4)


def encode(ids_a, ids_b, length):
    return sequence_pairs.encode_pair(
        ids_a, ids_b, max_seq_length=length, special=SPECIAL
    )


@pytest.mark.parametrize(
    ("ids_a", "ids_b", "length", "expected"),
    [
        ([7, 8], None, 9, ([2, 7, 8, 3], [0, 0, 0, 0])),
        ([7, 8], [9], 9, ([2, 7, 8, 3, 9, 3], [0, 0, 0, 0, 1, 1])),
        # An empty second text is none; an empty first text is one.
        ([7, 8], [], 9, ([2, 7, 8, 3], [0, 0, 0, 0])),
        ([], [9], 5, ([2, 3, 9, 3], [0, 0, 1, 1])),
        ([], None, 3, ([2, 3], [0, 0])),
        # A text alone is cut at its end; texts that just fit are not.
        (range(10, 20), None, 5, ([2, 10, 11, 12, 3], [0] * 5)),
        ([7, 8], [9, 10], 7, ([2, 7, 8, 3, 9, 10, 3], [0] * 4 + [1] * 3)),
    ],
)
def test_texts_are_joined_with_special_tokens(ids_a, ids_b, length, expected):
    assert encode(ids_a, ids_b, length) == expected


def test_the_lengths_are_those_of_taking_the_last_token_of_the_longer_text():
    for length_a, length_b, room in itertools.product(range(12), repeat=3):
        a, b = length_a, length_b
        while a + b > room:
            if a > b:
                a -= 1
            else:
                b -= 1

        found = sequence_pairs.truncated_lengths(length_a, length_b, room)

        assert found == (a, b), (length_a, length_b, room)


@pytest.mark.parametrize(("ids_b", "length"), [(None, 2), ([9], 4)])
def test_a_length_without_room_for_each_text_is_refused(ids_b, length):
    with pytest.raises(ValueError, match="room for a token of each text"):
        encode([7], ids_b, length)

    encode([7], ids_b, length + 1)


@pytest.fixture(params=["comma", "wordpiece"])
def tokenizer(request):
    return request.getfixturevalue(request.param)


def test_rows_of_a_batch_are_encoded_pairs_with_padding(tokenizer):
    texts, others = ["unaffable a", "un"], ["", "a b a b a b a b"]

    batch = tokenizer.batch(texts, others, max_seq_length=9)

    assert list(batch) == ["input_ids", "input_mask", "segment_ids"]
    for row, (text, other) in enumerate(zip(texts, others, strict=True)):
        ids, segments = sequence_pairs.encode_pair(
            tokenizer.encode(text),
            tokenizer.encode(other),
            max_seq_length=9,
            special=tokenizer.special_ids,
        )
        padding = 9 - len(ids)
        for name, values, pad in [
            ("input_ids", ids, tokenizer.special_ids.pad),
            ("input_mask", [1] * len(ids), 0),
            ("segment_ids", segments, 0),
        ]:
            assert batch[name].dtype == np.int32
            assert batch[name].shape == (2, 9)
            assert batch[name][row].tolist() == [*values, *[pad] * padding]


def test_texts_alone_are_pairs_with_empty_texts(tokenizer):
    alone = tokenizer.batch(["un", "a"], max_seq_length=5)
    paired = tokenizer.batch(["un", "a"], ["", ""], max_seq_length=5)

    for name, values in alone.items():
        np.testing.assert_array_equal(values, paired[name])


@pytest.mark.parametrize(
    ("texts", "text_pairs", "message"),
    [
        ("a b", None, "`texts` must be a sequence of texts.*one text"),
        (["a"], "b", "`text_pairs` must be a sequence of texts"),
        (["a", "b"], ["b"], "Received: 1 for 2"),
    ],
)
def test_wrong_texts_are_errors(wordpiece, texts, text_pairs, message):
    with pytest.raises(ValueError, match=message):
        wordpiece.batch(texts, text_pairs, max_seq_length=8)
