"""Draws segment pairs whose ends are fitted, so that little text is left out.

Data flow: tokens of a block -> [this file] -> pairs -> masks -> records.

`segment_pairs` fills a record with sentences until it is full, and cuts off
the excess, as the original does: 10% to 15% of the text at 128 tokens. Here, a
pair ends with the sentence whose end is nearest to the end of the record, and
the excess, 3% of the text, is cut off in the same way; padding is 4%.
Sentences that are too long are divided beforehand: `divide_sentences`.
The first record of a document is shortened by a random number of tokens, at
most as many as its last record has room for. So every copy of the corpus is cut
in other places, and the number of records hardly grows.

Pairs are not simply cut after so many tokens, which would leave out nothing:
the first segment would then often end in mid-sentence if the two are swapped,
and never if they are not. Single segments have no label to give away, so they
are.
"""

import bisect

import numpy as np

from albert_tf.data import segment_pairs
from albert_tf.data.segment_pairs import Chunker, Pair, Pairs, TokenBlock

# As often as the original tries to find another document.
_NUM_TRIES = 10


def divide_sentences(
    block: TokenBlock, final_ids: np.ndarray, *, max_length: int
) -> TokenBlock:
    """Divides sentences that are too long, or alone in their document.

    They are divided after tokens that end a sentence, and where this is not
    enough, into equal parts.

    Args:
        block: The tokens.
        final_ids: Ids of the tokens that end a sentence.
        max_length: Tokens that a sentence may have.
    """
    lengths = np.diff(block.sentence_starts)
    num_sentences = np.diff(block.document_starts)
    is_alone = np.repeat(num_sentences == 1, num_sentences)
    added = []
    for sentence in np.flatnonzero(is_alone | (lengths > max_length)):
        first, end = block.sentence_starts[sentence : sentence + 2].tolist()
        is_final = np.isin(block.ids[first:end], final_ids)
        # An ellipsis, and marks like `?!`, are one end.
        ends = np.flatnonzero(is_final[:-1] & ~is_final[1:])
        borders = [first, *(first + 1 + ends).tolist(), end]
        for start, stop in zip(borders[:-1], borders[1:], strict=True):
            size = stop - start
            num_parts = -(-size // max_length)
            added += [start + size * k // num_parts for k in range(num_parts)]
    starts = np.union1d(block.sentence_starts, np.array(added, np.int64))
    return TokenBlock(
        ids=block.ids,
        sentence_starts=starts,
        document_starts=np.searchsorted(
            starts, block.sentence_starts[block.document_starts]
        ),
    )


def sentence_order_pairs(
    block: TokenBlock,
    rng: np.random.Generator,
    *,
    budget: int,
    short_prob: float,
) -> tuple[Pairs, int]:
    """Draws sentence-order pairs in one pass over a block, in text order.

    As `segment_pairs.sentence_order_pairs`, with fitted ends. A last sentence
    that is left alone is paired with the one before it, which is then in two
    pairs.

    Args:
        block: The tokens; no sentence has more than half of `budget`.
        rng: Source of all draws.
        budget: Tokens that a pair may have, without special tokens.
        short_prob: Probability that the pairs of a document are shorter.

    Returns:
        `(pairs, number of documents of one sentence)`. The latter give no
        pair. The pairs are not truncated.
    """
    chunker = Chunker(block, rng)
    targets = segment_pairs.draw_targets(chunker, budget, short_prob)
    pairs, without_pair = [], 0
    for document, target in enumerate(targets):
        begin, last = chunker.document_starts[document : document + 2]
        if last - begin == 1:
            without_pair += 1
            continue
        limit = _first_limit(chunker, begin, last, budget, target)
        first = begin
        while first < last:
            end = _chunk_end(chunker, first, last, limit, target)
            # Two sentences always fit.
            end = max(end, min(first + 2, last))
            start = min(first, end - 2)
            middle = start + 1 + chunker.below(end - start - 1)
            pairs.append(chunker.adjacent(start, middle, end))
            first, limit = end, budget
    return segment_pairs.to_arrays(pairs), without_pair


def next_sentence_pairs(
    block: TokenBlock,
    rng: np.random.Generator,
    *,
    budget: int,
    short_prob: float,
) -> Pairs:
    """Draws next-sentence pairs in one pass over a block, in text order.

    As `segment_pairs.next_sentence_pairs`, with fitted ends. Arguments are
    those of `sentence_order_pairs`; pairs are not truncated.
    """
    chunker = Chunker(block, rng)
    targets = segment_pairs.draw_targets(chunker, budget, short_prob)
    pairs = []
    for document, target in enumerate(targets):
        first, last = chunker.document_starts[document : document + 2]
        while first < last:
            end = _chunk_end(chunker, first, last, budget, target)
            a_end = first + 1 + chunker.below(max(1, end - first - 1))
            is_alone = end - first == 1
            if is_alone or rng.random() < segment_pairs.RANDOM_NEXT_PROBABILITY:
                a_length = chunker.num_tokens(first, a_end)
                begin, b_end = _elsewhere(
                    chunker, document, budget - a_length, target - a_length
                )
                pairs.append(chunker.unrelated(first, a_end, begin, b_end))
                first = a_end
            else:
                pairs.append(chunker.adjacent(first, a_end, end))
                first = end
    return segment_pairs.to_arrays(pairs)


def single_segments(
    block: TokenBlock,
    rng: np.random.Generator,
    *,
    budget: int,
    short_prob: float,
) -> Pairs:
    """Cuts single segments in one pass, for masked-LM training alone.

    They are cut after `budget` tokens, wherever that is. Arguments are those
    of `sentence_order_pairs`, but sentences may be of any length; the pairs
    have no B and label 0.
    """
    chunker = Chunker(block, rng)
    targets = segment_pairs.draw_targets(chunker, budget, short_prob)
    starts = chunker.sentence_starts
    pairs = []
    for document, target in enumerate(targets):
        begin, last = chunker.document_starts[document : document + 2]
        start, sentence = starts[begin], begin
        limit = _first_limit(chunker, begin, last, budget, target)
        while start < starts[last]:
            sentence = bisect.bisect_left(
                starts, start + target, sentence, last
            )
            end = min(start + limit, starts[sentence])
            pairs.append(Pair(start, end, end, end, 0))
            start, limit = end, budget
    return segment_pairs.to_arrays(pairs)


def _first_limit(
    chunker: Chunker, first: int, last: int, budget: int, target: int
) -> int:
    """Draws how many tokens the first record of a document may have.

    See the top of this file.
    """
    if target < budget:
        return budget  # The target, which is random, moves all borders.
    unused = -chunker.num_tokens(first, last) % budget
    return budget - chunker.below(unused + 1)


def _chunk_end(
    chunker: Chunker, first: int, last: int, limit: int, target: int
) -> int:
    """Returns where a chunk of sentences ends that begins with `first`.

    It ends with the sentence that reaches `target`, but not after the sentence
    whose end is nearest to `limit` tokens; it has at least one.
    """
    end = chunker.fitting_end(first, last, limit)
    if end < last:
        room = limit - chunker.num_tokens(first, end)
        end += chunker.num_tokens(end, end + 1) <= 2 * room
    return min(max(end, first + 1), chunker.chunk_end(first, last, target))


def _elsewhere(
    chunker: Chunker, document: int, room: int, wanted: int
) -> tuple[int, int]:
    """Draws sentences of another document: the first, and the end."""
    for _ in range(_NUM_TRIES):
        begin, last = chunker.elsewhere(document)
        if chunker.num_tokens(begin, begin + 1) <= room:
            break
    return begin, _chunk_end(chunker, begin, last, room, wanted)
