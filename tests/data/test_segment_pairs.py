import numpy as np
import pytest

from albert_tf.data import segment_pairs


def block(*documents):
    """A block of documents given by the lengths of their sentences."""
    lengths = [length for document in documents for length in document]
    return segment_pairs.TokenBlock(
        ids=np.arange(sum(lengths), dtype=np.int32),
        sentence_starts=np.cumsum([0, *lengths]),
        document_starts=np.cumsum([0, *map(len, documents)]),
    )


def rng(seed=0):
    return np.random.default_rng(seed)


def pairs_of(*rows):
    columns = np.array(rows).T
    return segment_pairs.Pairs(
        a_start=columns[0],
        a_length=columns[1],
        b_start=columns[2],
        b_length=columns[3],
        label=np.zeros(len(rows), np.int64),
    )


def cut_by_loop(a_length, b_length, budget):
    while a_length + b_length > budget:
        if a_length > b_length:
            a_length -= 1
        else:
            b_length -= 1
    return a_length, b_length


def test_sentence_order_pairs_split_chunks_of_neighbouring_sentences():
    text = block([4, 3, 5, 2, 6, 4])

    pairs, without = segment_pairs.sentence_order_pairs(
        text, rng(), budget=10, short_prob=0.0
    )

    # A chunk is closed by the sentence with which it has 10 tokens.
    assert pairs.a_start.tolist() == [0, 12]
    assert (pairs.b_start + pairs.b_length).tolist() == [12, 24]
    assert (pairs.a_start + pairs.a_length == pairs.b_start).all()
    assert set(pairs.b_start.tolist()) <= set(text.sentence_starts.tolist())
    assert pairs.label.tolist() == [0, 0]
    assert without == 0


def test_a_chunk_of_one_sentence_gives_no_pair_and_is_counted():
    pairs, without = segment_pairs.sentence_order_pairs(
        block([50, 3, 3], [4]), rng(), budget=20, short_prob=0.0
    )

    assert pairs.a_start.tolist() == [50]
    assert without == 2


def test_reference_pairs_give_a_lone_sentence_another_document():
    pairs, without = segment_pairs.sentence_order_pairs(
        block([50], [4, 4]),
        rng(),
        budget=20,
        short_prob=0.0,
        reference_pairs=True,
    )

    assert without == 0
    assert pairs.label.tolist() == [1, 0]
    assert pairs.a_length[0] == 50
    assert pairs.b_start[0] in (50, 54)
    # A is longer than the target, so B is a single sentence.
    assert pairs.b_length[0] == 4


def test_short_sequences_have_targets_from_2_to_the_budget():
    text = block(*[[1] * 12] * 4000)

    pairs, _ = segment_pairs.sentence_order_pairs(
        text, rng(), budget=12, short_prob=1.0
    )

    # Sentences of one token make the first chunk as long as its target.
    first = pairs.a_start % 12 == 0
    targets = (pairs.a_length + pairs.b_length)[first]
    assert targets.min() == 2 and targets.max() == 12
    assert np.abs(np.bincount(targets)[2:] - 4000 / 11).max() < 4 * 20


def test_half_of_the_next_sentence_pairs_are_unrelated():
    text = block(*[[3] * 20] * 300)

    pairs = segment_pairs.next_sentence_pairs(
        text, rng(), budget=12, short_prob=0.0, is_fitted=False
    )

    is_next = pairs.b_start == pairs.a_start + pairs.a_length
    same_document = pairs.a_start // 60 == pairs.b_start // 60
    np.testing.assert_array_equal(pairs.label == 0, is_next & same_document)
    assert not same_document[pairs.label == 1].any()
    # The last sentence of a document, if left alone, adds to the half.
    assert 0.45 < pairs.label.mean() < 0.6


def test_sentences_that_an_unrelated_one_stands_in_for_are_used_next():
    pairs = segment_pairs.next_sentence_pairs(
        block([3] * 20, [3] * 20),
        rng(),
        budget=12,
        short_prob=0.0,
        is_fitted=False,
    )

    used = np.where(pairs.label == 0, pairs.b_length, 0) + pairs.a_length
    for document in (0, 60):
        here = (pairs.a_start >= document) & (pairs.a_start < document + 60)
        ends = (pairs.a_start + used)[here]
        assert pairs.a_start[here].tolist() == [document, *ends[:-1]]
        assert ends[-1] == document + 60
    # An unrelated B fills the pair up to its target.
    total = (pairs.a_length + pairs.b_length)[pairs.label == 1]
    reaches_end = ((pairs.b_start + pairs.b_length) % 60 == 0)[pairs.label == 1]
    assert ((total == 12) | reaches_end).all()


def test_a_lone_document_is_its_own_random_document():
    pairs = segment_pairs.next_sentence_pairs(
        block([5, 5]), rng(), budget=4, short_prob=0.0, is_fitted=False
    )

    assert pairs.label.tolist() == [1, 1]
    assert set(pairs.b_start.tolist()) <= {0, 5}


def test_tokens_in_several_segments_are_counted_once():
    pairs = pairs_of((0, 4, 4, 2), (3, 3, 8, 5), (20, 1, 0, 0))

    # 0 to 5, 8 to 12, and 20.
    assert pairs.num_distinct_tokens() == 6 + 5 + 1
    assert pairs.num_tokens == 6 + 8 + 1


def test_half_of_the_pairs_in_order_are_swapped_and_labelled():
    pairs = pairs_of(*[(0, 3, 3, 5)] * 4000)
    unrelated = segment_pairs.Pairs(
        **vars(pairs) | {"label": np.ones(4000, np.int64)}
    )
    kept = segment_pairs.swap_half(unrelated, rng())
    assert (kept.a_start == 0).all() and (kept.label == 1).all()

    swapped = segment_pairs.swap_half(pairs, rng())

    is_swapped = swapped.label == 1
    assert abs(is_swapped.sum() - 2000) < 4 * np.sqrt(1000)
    assert (swapped.a_start[is_swapped] == 3).all()
    assert (swapped.a_length[is_swapped] == 5).all()
    assert (swapped.b_start[~is_swapped] == 3).all()


def test_truncation_leaves_the_lengths_that_the_loop_leaves():
    lengths = [(a, b) for a in range(1, 15) for b in range(1, 15)]
    pairs = pairs_of(*[(100, a, 200, b) for a, b in lengths])

    # With a budget of 40 all pairs fit.
    for budget in (2, 7, 10, 40):
        cut = segment_pairs.truncate(pairs, rng(), budget=budget)

        expected = [cut_by_loop(a, b, budget) for a, b in lengths]
        np.testing.assert_array_equal(
            np.stack([cut.a_length, cut.b_length], axis=1), expected
        )


def test_truncation_takes_from_front_and_back_with_equal_chance():
    pairs = pairs_of(*[(0, 12, 12, 2)] * 4000)

    cut = segment_pairs.truncate(pairs, rng(), budget=6)

    # 8 tokens go; Binomial(8, 1/2) of them at the front.
    assert (cut.a_length == 4).all()
    expected = np.array([1, 8, 28, 56, 70, 56, 28, 8, 1]) / 256 * 4000
    counts = np.bincount(cut.a_start, minlength=9)
    assert (np.abs(counts - expected) < 4 * np.sqrt(expected) + 4).all()


@pytest.mark.parametrize("budget", [9, 11])
def test_with_random_ties_lengths_do_not_tell_the_segments_apart(budget):
    pairs = pairs_of(*[(0, 20, 20, 20)] * 4000)

    cut = segment_pairs.truncate(pairs, rng(), budget=budget, random_ties=True)

    assert (cut.a_length + cut.b_length == budget).all()
    assert abs((cut.a_length > cut.b_length).sum() - 2000) < 4 * np.sqrt(1000)


# Fitted ends.


def prose(num_documents=40, seed=0):
    """Documents of 1 to 40 sentences of 1 to 30 tokens."""
    draws = np.random.default_rng(seed)
    return block(
        *(
            draws.integers(1, 31, draws.integers(1, 41)).tolist()
            for _ in range(num_documents)
        )
    )


def test_a_pair_ends_with_the_sentence_that_is_nearest_to_the_budget():
    pairs, without_pair = segment_pairs.fitted_order_pairs(
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
    pairs, without_pair = segment_pairs.fitted_order_pairs(
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
        pairs, without_pair = segment_pairs.fitted_order_pairs(
            text, rng(), budget=64, short_prob=short_prob
        )

        assert without_pair == len(alone) > 0
        assert pairs.num_distinct_tokens() == len(text.ids) - lost
        assert (pairs.a_length > 0).all() and (pairs.b_length > 0).all()


def test_next_sentence_pairs_hold_every_sentence():
    text = prose()

    pairs = segment_pairs.next_sentence_pairs(
        text, rng(), budget=64, short_prob=0.1, is_fitted=True
    )

    assert pairs.num_distinct_tokens() == len(text.ids)
    is_next = pairs.b_start == pairs.a_start + pairs.a_length
    # An unrelated B may follow by chance.
    assert is_next[pairs.label == 0].all()
    assert is_next[pairs.label == 1].mean() < 0.1
    assert 0.45 < pairs.label.mean() < 0.6


def test_little_is_cut_off_and_records_are_nearly_full():
    draws = np.random.default_rng(0)
    text = block(*(draws.integers(5, 41, 60).tolist() for _ in range(30)))
    sizes = {"budget": 125, "short_prob": 0.0}

    for pairs in (
        segment_pairs.fitted_order_pairs(text, rng(), **sizes)[0],
        segment_pairs.next_sentence_pairs(text, rng(), **sizes, is_fitted=True),
    ):
        cut = segment_pairs.truncate(pairs, rng(), budget=125)
        left_out = 1 - cut.num_distinct_tokens() / len(text.ids)
        assert left_out < 0.05
        assert cut.num_tokens / len(cut) > 0.92 * 125


def test_edges_of_segments_do_not_tell_which_one_comes_first():
    draws = np.random.default_rng(0)
    text = block(*(draws.integers(5, 41, 60).tolist() for _ in range(200)))
    pairs, _ = segment_pairs.fitted_order_pairs(
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
        segment_pairs.fitted_order_pairs(
            text, rng(seed), budget=110, short_prob=0.0
        )[0].a_start
        for seed in range(20)
    ]

    assert len({tuple(s.tolist()) for s in starts}) > 2
    assert max(map(len, starts)) <= min(map(len, starts)) + 1


def test_single_segments_are_cut_after_as_many_tokens_as_fit():
    segments = segment_pairs.single_segments(
        block([4, 3, 7], [30, 6], [2]), rng(), budget=7, short_prob=0.0
    )

    lengths = segments.a_length.tolist()
    assert lengths[:2] == [7, 7] and lengths[-1] == 2
    # 36 tokens in 6 records, of which the first or the last has one.
    assert lengths[3:-2] == [7, 7, 7, 7]
    assert lengths[2] + lengths[-2] == 8
    assert segments.num_distinct_tokens() == segments.num_tokens == 52
    assert not segments.b_length.any() and not segments.label.any()
