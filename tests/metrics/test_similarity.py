import numpy as np
import pytest

from albert_tf.metrics import similarity

TEXTS = ["The cat sat.", "the cat", "我愛貓", "愛 cat", ""]


def test_common_words_are_counted_once_and_chinese_ones_by_character():
    words = similarity.word_rows(TEXTS)

    shares = similarity.to_all(words, words, similarity.jaccard)

    expected = [
        [1, 2 / 3, 0, 1 / 4, 0],
        [2 / 3, 1, 0, 1 / 3, 0],
        [0, 0, 1, 1 / 4, 0],
        [1 / 4, 1 / 3, 1 / 4, 1, 0],
        # Nothing in common, not even with itself.
        [0, 0, 0, 0, 0],
    ]
    np.testing.assert_allclose(shares, expected)
    beside = similarity.of_pairs(words[:2], words[3:], similarity.jaccard)
    np.testing.assert_allclose(beside, [1 / 4, 0])


# Of the rows q0 d0, q1 d1, q0 d2, q3 d1.
FIRST, SECOND = ["q0", "q1", "q0", "q3"], ["d0", "d1", "d2", "d1"]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        # d2 belongs to q0 as well, and d1 is that of two questions.
        (
            [[0.5, 0.1, 0.9], [0.2, 0.3, 0.4], [0, 1, 0.5], [0, 1, 0]],
            [1, 2, 2, 1],
        ),
        # All alike: the wrong ones come first.
        (np.ones([4, 3]), [2, 3, 2, 3]),
    ],
)
def test_ranks_count_the_texts_that_are_wrong(scores, expected):
    # One-hot second texts: the first ones are their similarities.
    second = np.eye(3)[[0, 1, 2, 1]]

    found = similarity.ranks(
        FIRST, SECOND, np.array(scores), second, lambda products, *_: products
    )

    assert found.tolist() == expected


def test_a_text_is_no_answer_to_itself():
    names = ["a", "b", "c", "d"], ["b", "a", "d", "c"]
    vectors = np.eye(2)[[0, 0, 1, 1]]

    assert similarity.ranks(*names, vectors, vectors).tolist() == [1] * 4
    # The right text may equal its first text; others are still wrong.
    found = similarity.ranks(names[0], names[0], np.eye(4), np.ones([4, 4]))
    assert found.tolist() == [4] * 4


def test_many_rows_are_ranked_in_parts():
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 600, 4))
    names = [[f"{kind}{i:03}" for i in range(600)] for kind in "qd"]

    found = similarity.ranks(*names, first, second)

    # The length of a first text changes none of its ranks.
    scores = first @ (second / np.linalg.norm(second, axis=1)[:, None]).T
    expected = (scores >= np.diag(scores)[:, None]).sum(axis=1)
    assert found.tolist() == expected.tolist()
