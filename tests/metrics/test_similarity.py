import numpy as np
import pytest

from albert_tf.metrics import similarity

TEXTS = ["The cat sat.", "the cat", "我愛貓", "愛 cat", ""]


def test_common_words_are_counted_once_and_chinese_ones_by_character():
    words = similarity.word_matrix(TEXTS)

    shares = similarity.jaccard(words, words)

    expected = [
        [1, 2 / 3, 0, 1 / 4, 0],
        [2 / 3, 1, 0, 1 / 3, 0],
        [0, 0, 1, 1 / 4, 0],
        [1 / 4, 1 / 3, 1 / 4, 1, 0],
        # Nothing in common, not even with itself.
        [0, 0, 0, 0, 0],
    ]
    np.testing.assert_allclose(shares, expected)
    beside = similarity.jaccard(words[:2], words[3:], of_pairs=True)
    np.testing.assert_allclose(beside, [1 / 4, 0])


def test_no_words_at_all():
    words = similarity.word_matrix(["", "!"])

    assert similarity.jaccard(words, words).tolist() == [[0, 0], [0, 0]]


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
    def similarities(rows, columns):
        assert [SECOND[i] for i in columns] == ["d0", "d1", "d2"]
        return np.array(scores, float)[rows]

    found = similarity.ranks(FIRST, SECOND, similarities)

    assert found.tolist() == expected


def test_many_rows_are_ranked_in_parts():
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 600, 4))
    names = [[f"{kind}{i:03}" for i in range(600)] for kind in "qd"]

    found = similarity.ranks(
        *names, lambda rows, columns: first[rows] @ second[columns].T
    )

    scores = first @ second.T
    assert (
        found.tolist() == (scores >= np.diag(scores)[:, None]).sum(1).tolist()
    )
