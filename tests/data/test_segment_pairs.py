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


def chunker(text, *, seed=0, budget, short_prob=0.0):
    return segment_pairs.Chunker(
        text, rng(seed), budget=budget, short_prob=short_prob
    )


def pairs_of(*rows):
    names = "a_start, a_length, b_start, b_length, label"
    return np.rec.array([(*row, 0) for row in rows], names=names)


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
        chunker(text, budget=10)
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
        chunker(block([50, 3, 3], [4]), budget=20)
    )

    assert pairs.a_start.tolist() == [50]
    assert without == 2


def test_reference_pairs_give_a_lone_sentence_another_document():
    pairs, without = segment_pairs.sentence_order_pairs(
        chunker(block([50], [4, 4]), budget=20), reference_pairs=True
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
        chunker(text, budget=12, short_prob=1.0)
    )

    # Sentences of one token make the first chunk as long as its target.
    first = pairs.a_start % 12 == 0
    targets = (pairs.a_length + pairs.b_length)[first]
    assert targets.min() == 2 and targets.max() == 12
    assert np.abs(np.bincount(targets)[2:] - 4000 / 11).max() < 4 * 20


def test_half_of_the_next_sentence_pairs_are_unrelated():
    text = block(*[[3] * 20] * 300)

    pairs = segment_pairs.next_sentence_pairs(
        chunker(text, budget=12), is_fitted=False
    )

    is_next = pairs.b_start == pairs.a_start + pairs.a_length
    same_document = pairs.a_start // 60 == pairs.b_start // 60
    np.testing.assert_array_equal(pairs.label == 0, is_next & same_document)
    assert not same_document[pairs.label == 1].any()
    # The last sentence of a document, if left alone, adds to the half.
    assert 0.45 < pairs.label.mean() < 0.6


def test_a_lone_document_is_its_own_random_document():
    pairs = segment_pairs.next_sentence_pairs(
        chunker(block([5, 5]), budget=4), is_fitted=False
    )

    assert pairs.label.tolist() == [1, 1]
    assert set(pairs.b_start.tolist()) <= {0, 5}


def test_half_of_the_pairs_in_order_are_swapped_and_labelled():
    pairs = pairs_of(*[(0, 3, 3, 5)] * 4000)
    unrelated = pairs.copy()
    unrelated.label = 1
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


def test_a_pair_ends_with_the_sentence_that_is_nearest_to_the_budget():
    pairs, without_pair = segment_pairs.fitted_order_pairs(
        # After 9 and 12 tokens; after 7 and 11; the rest.
        chunker(block([3, 3, 3, 3, 4, 3, 4, 2, 3]), budget=10)
    )

    # The first of several records may be shortened.
    starts = pairs.a_start.tolist()
    ends = (pairs.b_start + pairs.b_length).tolist()
    assert starts[0] == 0 and ends[-1] == 28
    assert starts[1:] == ends[:-1]
    assert without_pair == 0


def test_a_last_sentence_is_paired_with_the_one_before_it():
    pairs, without_pair = segment_pairs.fitted_order_pairs(
        chunker(block([5, 5, 3], [4]), budget=13, short_prob=1.0)
    )

    assert pairs.a_length.tolist() == [5, 5]
    assert pairs.b_length.tolist() == [5, 3]
    assert pairs.a_start.tolist() == [0, 5]
    assert without_pair == 1  # The document of one sentence.


def test_edges_of_segments_do_not_tell_which_one_comes_first():
    draws = np.random.default_rng(0)
    text = block(*(draws.integers(5, 41, 60).tolist() for _ in range(200)))
    pairs, _ = segment_pairs.fitted_order_pairs(
        chunker(text, budget=125, short_prob=0.1)
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


def test_single_segments_are_cut_after_as_many_tokens_as_fit():
    segments = segment_pairs.single_segments(
        chunker(block([4, 3, 7], [30, 6], [2]), budget=7)
    )

    lengths = segments.a_length.tolist()
    assert lengths[:2] == [7, 7] and lengths[-1] == 2
    # 36 tokens in 6 records, of which the first or the last has one.
    assert lengths[3:-2] == [7, 7, 7, 7]
    assert lengths[2] + lengths[-2] == 8
    assert segment_pairs.num_distinct_tokens(segments) == sum(lengths) == 52
    assert not segments.b_length.any() and not segments.label.any()


def test_copies_are_cut_in_other_places():
    text = block([20] * 100)

    starts = [
        segment_pairs.fitted_order_pairs(chunker(text, seed=seed, budget=110))[
            0
        ].a_start
        for seed in range(20)
    ]

    assert len({tuple(s.tolist()) for s in starts}) > 2
    assert max(map(len, starts)) <= min(map(len, starts)) + 1
