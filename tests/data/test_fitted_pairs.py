import numpy as np
import pytest

from albert_tf.data import fitted_pairs, segment_pairs
from tests.data.test_segment_pairs import block, rng


def prose(num_documents=40, seed=0):
    """Documents of 1 to 40 sentences of 1 to 30 tokens."""
    draws = np.random.default_rng(seed)
    return block(
        *(
            draws.integers(1, 31, draws.integers(1, 41)).tolist()
            for _ in range(num_documents)
        )
    )


@pytest.fixture
def final():
    """Divides sentences, given by their tokens, where a token is 9."""

    def divide(*documents, max_length):
        sentences = [tokens for document in documents for tokens in document]
        tokens = segment_pairs.TokenBlock(
            ids=np.concatenate(sentences).astype(np.int32),
            sentence_starts=np.cumsum([0, *map(len, sentences)]),
            document_starts=np.cumsum([0, *map(len, documents)]),
        )
        divided = fitted_pairs.divide_sentences(
            tokens, np.array([9]), max_length=max_length
        )
        assert divided.ids is tokens.ids
        return divided

    return divide


def test_sentences_that_are_too_long_are_divided_where_a_sentence_ends(final):
    divided = final(
        [[1, 2, 9, 9, 3, 9], [1, 9, 2, 9]], [[4], [1, 2, 3, 9, 5]], max_length=4
    )

    # 3 and 5 tokens; the second sentence is short enough.
    assert divided.sentence_starts.tolist() == [0, 4, 6, 10, 11, 15, 16]
    assert divided.document_starts.tolist() == [0, 3, 6]


def test_a_sentence_that_is_alone_in_its_document_is_divided(final):
    divided = final([[1, 9, 2, 9]], [[1, 2, 3]], max_length=9)

    assert divided.sentence_starts.tolist() == [0, 2, 4, 7]
    assert divided.document_starts.tolist() == [0, 2, 3]


def test_what_no_sentence_ends_is_divided_into_equal_parts(final):
    divided = final([[1] * 10, [2]], max_length=4)

    assert divided.sentence_starts.tolist() == [0, 3, 6, 10, 11]


def test_a_pair_ends_with_the_sentence_that_is_nearest_to_the_budget():
    pairs, without_pair = fitted_pairs.sentence_order_pairs(
        # After 9 and 12 tokens; after 7 and 11; the rest.
        block([3, 3, 3, 3, 4, 3, 4, 2, 3]),
        rng(),
        budget=10,
        short_prob=0.0,
    )

    # The first of several records may be shortened.
    starts = pairs.a_start.tolist()
    ends = (pairs.b_start + pairs.b_length).tolist()
    assert starts[0] == 0 and ends[-1] == 28
    assert starts[1:] == ends[:-1]
    assert without_pair == 0


def test_a_last_sentence_is_paired_with_the_one_before_it():
    pairs, without_pair = fitted_pairs.sentence_order_pairs(
        block([5, 5, 3], [4]), rng(), budget=13, short_prob=1.0
    )

    assert pairs.a_length.tolist() == [5, 5]
    assert pairs.b_length.tolist() == [5, 3]
    assert pairs.a_start.tolist() == [0, 5]
    assert without_pair == 1  # The document of one sentence.


def test_every_sentence_is_in_a_pair_unless_it_is_alone():
    text = prose()
    alone = np.flatnonzero(np.diff(text.document_starts) == 1)
    lost = sum(
        np.diff(text.sentence_starts)[text.document_starts[document]]
        for document in alone
    )

    for short_prob in (0.0, 0.5):
        pairs, without_pair = fitted_pairs.sentence_order_pairs(
            text, rng(), budget=64, short_prob=short_prob
        )

        assert without_pair == len(alone) > 0
        assert pairs.num_distinct_tokens() == len(text.ids) - lost
        assert (pairs.a_length > 0).all() and (pairs.b_length > 0).all()


def test_next_sentence_pairs_hold_every_sentence():
    text = prose()

    pairs = fitted_pairs.next_sentence_pairs(
        text, rng(), budget=64, short_prob=0.1
    )

    assert pairs.num_distinct_tokens() == len(text.ids)
    is_next = pairs.b_start == pairs.a_start + pairs.a_length
    # An unrelated B may follow by chance.
    assert is_next[pairs.label == 0].all()
    assert is_next[pairs.label == 1].mean() < 0.1
    assert 0.45 < pairs.label.mean() < 0.6


@pytest.mark.parametrize(
    "draw", ["sentence_order_pairs", "next_sentence_pairs"]
)
def test_little_is_cut_off_and_records_are_nearly_full(draw):
    draws = np.random.default_rng(0)
    text = block(*(draws.integers(5, 41, 60).tolist() for _ in range(30)))
    budget = 125

    pairs = getattr(fitted_pairs, draw)(
        text, rng(), budget=budget, short_prob=0.0
    )

    pairs = pairs[0] if isinstance(pairs, tuple) else pairs
    cut = segment_pairs.truncate(pairs, rng(), budget=budget)
    left_out = 1 - cut.num_distinct_tokens() / len(text.ids)
    assert left_out < 0.05
    assert cut.num_tokens / len(cut) > 0.92 * budget


def test_edges_of_segments_do_not_tell_which_one_comes_first():
    draws = np.random.default_rng(0)
    text = block(*(draws.integers(5, 41, 60).tolist() for _ in range(200)))
    pairs, _ = fitted_pairs.sentence_order_pairs(
        text, rng(), budget=125, short_prob=0.1
    )

    cut = segment_pairs.truncate(pairs, rng(), budget=125, random_ties=True)

    starts = text.sentence_starts
    begins_cut = [
        1 - np.isin(start, starts).mean()
        for start in (cut.a_start, cut.b_start)
    ]
    ends_cut = [
        1 - np.isin(end, starts).mean()
        for end in (cut.a_start + cut.a_length, cut.b_start + cut.b_length)
    ]
    for shares in (begins_cut, ends_cut):
        # 4 standard deviations of a difference of shares.
        deviation = np.sqrt(2 * shares[0] * (1 - shares[0]) / len(cut))
        assert abs(shares[0] - shares[1]) < 4 * deviation
        assert shares[0] > 0.1


def test_copies_are_cut_in_other_places():
    text = block([20] * 100)

    starts = [
        fitted_pairs.sentence_order_pairs(
            text, rng(seed), budget=110, short_prob=0.0
        )[0].a_start
        for seed in range(20)
    ]

    assert len({tuple(s.tolist()) for s in starts}) > 2
    assert max(map(len, starts)) <= min(map(len, starts)) + 1


def test_single_segments_are_cut_after_as_many_tokens_as_fit():
    segments = fitted_pairs.single_segments(
        block([4, 3, 7], [30, 6], [2]), rng(), budget=7, short_prob=0.0
    )

    lengths = segments.a_length.tolist()
    assert lengths[:2] == [7, 7] and lengths[-1] == 2
    # 36 tokens in 6 records, of which the first or the last has one.
    assert lengths[3:-2] == [7, 7, 7, 7]
    assert lengths[2] + lengths[-2] == 8
    assert segments.num_distinct_tokens() == segments.num_tokens == 52
    assert not segments.b_length.any() and not segments.label.any()


def test_shorter_single_segments_end_with_a_sentence():
    segments = fitted_pairs.single_segments(
        block([4] * 50), rng(), budget=30, short_prob=1.0
    )

    assert (segments.a_length % 4 == 0).all()
    assert segments.num_distinct_tokens() == 200
