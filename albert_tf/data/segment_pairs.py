"""Draws segment pairs: which spans of a document make one training example.

Data flow: tokens of a block -> [this file] -> pairs -> masks -> records.

The tokens of a block are in one array, sentence after sentence, document after
document. A segment is a span of it, so a pair is four integers and a label; no
tokens are copied here.

The original fills a record with sentences until it is full, and cuts off the
excess. A *fitted* pair ends with the sentence whose end is nearest to the end
of the record; docs/pretraining.md says how much text that saves. The first
record of a document is shortened by a random number of tokens, at most as many
as its last one has room for, so that every copy is cut in other places.

Pairs are not simply cut after so many tokens, which would leave out nothing:
the first segment would then often end in mid-sentence if the two are swapped,
and never if they are not. Single segments, which have no label, are cut so.

Source: Lan et al. 2020, section 3.1; google-research/albert,
`create_pretraining_data.create_instances_from_document`.
"""

import bisect
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

_RANDOM_NEXT_PROBABILITY = 0.5
_SWAP_PROBABILITY = 0.5
_SHORTEST_TARGET = 2
# As often as the original tries to find another document.
_NUM_TRIES = 10
_NO_LIMIT = sys.maxsize


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenBlock:
    """The tokens of a block of documents.

    Sentence `i` is `ids[sentence_starts[i]:sentence_starts[i + 1]]`; document
    `d` has the sentences from `document_starts[d]` to before
    `document_starts[d + 1]`. None is empty.
    """

    ids: np.ndarray  # int32 [tokens]
    sentence_starts: np.ndarray  # int64 [sentences + 1]
    document_starts: np.ndarray  # int64 [documents + 1]


# Segment pairs as spans of a token array: a record array, whose columns, all
# int64, have no type of their own.
Pairs: TypeAlias = Any
Pair = tuple[int, int, int, int, int]
_COLUMNS = [
    ("a_start", np.int64),
    ("a_length", np.int64),  # At least 1.
    ("b_start", np.int64),
    ("b_length", np.int64),  # 0 if there is no second segment.
    ("label", np.int64),  # 0 if B follows A, 1 if swapped or unrelated.
]


class Chunker:
    """A block whose sentences are put together to chunks, by random draws.

    It has Python lists, which are faster to iterate over than arrays. Sentences
    are given by index; `end` and `last` are one past the last one. A pair may
    have `budget` tokens, without special tokens; the chunks of a document are
    shorter with the probability `short_prob`.
    """

    def __init__(
        self,
        block: TokenBlock,
        rng: np.random.Generator,
        *,
        budget: int,
        short_prob: float,
    ) -> None:
        self.sentence_starts: list[int] = block.sentence_starts.tolist()
        self._document_starts: list[int] = block.document_starts.tolist()
        self.rng = rng
        self.budget = budget
        self._short_prob = short_prob

    def documents(self) -> Iterator[tuple[int, int, int, int]]:
        """Yields (document, first sentence, end sentence, target).

        The target is how many tokens the pairs of the document should have.
        """
        # TF1: drawn once for each document and pass, not for each chunk.
        num_documents = len(self._document_starts) - 1
        short = self.rng.random(num_documents) < self._short_prob
        drawn = self.rng.integers(
            _SHORTEST_TARGET, self.budget + 1, num_documents
        )
        targets = np.where(short, drawn, self.budget).tolist()
        for document, target in enumerate(targets):
            first, last = self._document_starts[document : document + 2]
            yield document, first, last, target

    def chunk_end(
        self, first: int, last: int, target: int, limit: int = _NO_LIMIT
    ) -> int:
        """Returns where a chunk of sentences ends that begins with `first`.

        It ends with the sentence that reaches `target` tokens, or with the
        document, `last`; but not after the sentence whose end is nearest to
        `limit` tokens. It has at least one sentence.
        """
        starts = self.sentence_starts
        begin = starts[first]
        end = bisect.bisect_left(starts, begin + target, first + 1, last)
        # The most sentences that have at most `limit` tokens.
        nearest = (
            bisect.bisect_right(starts, begin + limit, first, last + 1) - 1
        )
        if nearest < last:
            room = limit - self.num_tokens(first, nearest)
            nearest += self.num_tokens(nearest, nearest + 1) <= 2 * room
        return min(max(nearest, first + 1), end)

    def first_limit(self, first: int, last: int, target: int) -> int:
        """Draws how many tokens the first record of a document may have."""
        # A target that is random moves all borders.
        if target < self.budget:
            return self.budget
        unused = -self.num_tokens(first, last) % self.budget
        return self.budget - self.below(unused + 1)

    def num_tokens(self, first: int, end: int) -> int:
        """Returns the tokens of the sentences from `first` to `end - 1`."""
        return self.sentence_starts[end] - self.sentence_starts[first]

    def draw_middle(self, first: int, end: int) -> int:
        """Draws where the sentences of a chunk are divided."""
        return first + 1 + self.below(max(1, end - first - 1))

    def adjacent(self, first: int, middle: int, end: int) -> Pair:
        """Returns a pair of neighbours, which meet at sentence `middle`."""
        a_start, b_start = (self.sentence_starts[i] for i in (first, middle))
        b_length = self.num_tokens(middle, end)
        return a_start, b_start - a_start, b_start, b_length, 0

    def unrelated(
        self,
        document: int,
        first: int,
        a_end: int,
        target: int,
        limit: int = _NO_LIMIT,
    ) -> Pair:
        """Returns a pair of A and of sentences drawn from another document."""
        starts, a_length = self.sentence_starts, self.num_tokens(first, a_end)
        room = limit - a_length
        for _ in range(_NUM_TRIES):
            begin, last = self._elsewhere(document)
            if self.num_tokens(begin, begin + 1) <= room:
                break
        end = self.chunk_end(begin, last, target - a_length, room)
        b_length = self.num_tokens(begin, end)
        return starts[first], a_length, starts[begin], b_length, 1

    def _elsewhere(self, document: int) -> tuple[int, int]:
        """Draws a sentence of another document; returns its end, too."""
        other = document
        if len(self._document_starts) > 2:
            other = self.below(len(self._document_starts) - 2)
            other += other >= document
        begin, last = self._document_starts[other : other + 2]
        return begin + self.below(last - begin), last

    def below(self, end: int) -> int:
        """Draws a whole number from 0 to `end - 1`."""
        return int(self.rng.random() * end)


def sentence_order_pairs(
    chunker: Chunker, *, reference_pairs: bool = False
) -> tuple[Pairs, int]:
    """Draws sentence-order pairs in one pass over a block, in text order.

    A is the first sentences of a chunk, B the rest; `swap_half` exchanges
    them. A chunk of one sentence has no order, so it gives no pair; or, with
    `reference_pairs`, it is paired with sentences of another document, with
    label 1. Returns the pairs, which are not truncated, and the number of
    chunks without one.
    """
    # Differs: the reference always makes `reference_pairs`, so that
    # the topic gives away a third of the labels (issue 234 there).
    pairs, without_pair = [], 0
    for document, first, last, target in chunker.documents():
        while first < last:
            end = chunker.chunk_end(first, last, target)
            if end - first > 1:
                middle = chunker.draw_middle(first, end)
                pairs.append(chunker.adjacent(first, middle, end))
            elif reference_pairs:
                pairs.append(chunker.unrelated(document, first, end, target))
            else:
                without_pair += 1
            first = end
    return _to_arrays(pairs), without_pair


def fitted_order_pairs(chunker: Chunker) -> tuple[Pairs, int]:
    """Draws sentence-order pairs with fitted ends.

    A last sentence that is left alone is paired with the one before it, which
    is then in two pairs. For the results, see `sentence_order_pairs`; no
    sentence has more than half of the budget, and only documents of one
    sentence give no pair.
    """
    pairs, without_pair = [], 0
    for _, first, last, target in chunker.documents():
        if last - first == 1:
            without_pair += 1
            continue
        limit = chunker.first_limit(first, last, target)
        while first < last:
            end = chunker.chunk_end(first, last, target, limit)
            # Two sentences always fit.
            end = max(end, min(first + 2, last))
            start = min(first, end - 2)
            middle = chunker.draw_middle(start, end)
            pairs.append(chunker.adjacent(start, middle, end))
            first, limit = end, chunker.budget
    return _to_arrays(pairs), without_pair


def next_sentence_pairs(chunker: Chunker, *, is_fitted: bool) -> Pairs:
    """Draws next-sentence pairs in one pass: half of the Bs are unrelated.

    An unrelated B comes from a random place of another document of the block
    (of the same document if there is no other); the sentences that it replaces
    begin the next chunk. A chunk of one sentence always gets such a B. Pairs
    are not truncated.
    """
    limit = chunker.budget if is_fitted else _NO_LIMIT
    pairs = []
    for document, first, last, target in chunker.documents():
        while first < last:
            end = chunker.chunk_end(first, last, target, limit)
            is_alone, a_end = end - first == 1, first + 1
            # A fitted chunk draws, even if there is only one place.
            if is_fitted or not is_alone:
                a_end = chunker.draw_middle(first, end)
            if is_alone or chunker.rng.random() < _RANDOM_NEXT_PROBABILITY:
                pairs.append(
                    chunker.unrelated(document, first, a_end, target, limit)
                )
                first = a_end
            else:
                pairs.append(chunker.adjacent(first, a_end, end))
                first = end
    return _to_arrays(pairs)


def single_segments(chunker: Chunker) -> Pairs:
    """Cuts single segments in one pass, for masked-LM training alone.

    They are cut after as many tokens as fit, wherever that is, and sentences
    may be of any length. The pairs have no B and label 0.
    """
    starts = chunker.sentence_starts
    pairs = []
    for _, sentence, last, target in chunker.documents():
        start = starts[sentence]
        limit = chunker.first_limit(sentence, last, target)
        while start < starts[last]:
            sentence = bisect.bisect_left(
                starts, start + target, sentence, last
            )
            end = min(start + limit, starts[sentence])
            pairs.append((start, end - start, end, 0, 0))
            start, limit = end, chunker.budget
    return _to_arrays(pairs)


def swap_half(pairs: Pairs, rng: np.random.Generator) -> Pairs:
    """Exchanges A and B of half of the pairs with label 0; labels them 1."""
    swap = (pairs.label == 0) & (rng.random(len(pairs)) < _SWAP_PROBABILITY)
    chosen, result = pairs[swap], pairs.copy()
    for a, b in (("a_start", "b_start"), ("a_length", "b_length")):
        result[a][swap], result[b][swap] = chosen[b], chosen[a]
    result.label[swap] = 1
    return result


def truncate(
    pairs: Pairs,
    rng: np.random.Generator,
    *,
    budget: int,
    random_ties: bool = False,
) -> Pairs:
    """Truncates pairs to `budget` tokens.

    The reference removes one token at a time from the longer segment, at its
    front or its back with equal probability; this is the same in closed form.

    Of two equally long segments, B loses the odd token, as in the reference;
    with `random_ties`, either does. Pairs that are swapped after truncation
    need them, because their lengths would otherwise give their order away.
    """
    longer = pairs.a_length - pairs.b_length
    excess = np.maximum(pairs.a_length + pairs.b_length - budget, 0)
    # The longer one is cut down to the other first, then they take turns.
    from_a = np.clip(longer, 0, excess)
    from_b = np.clip(-longer, 0, excess)
    shared = excess - from_a - from_b
    # 0: B loses the odd token.
    first_turn = rng.integers(0, 2, len(pairs)) if random_ties else np.int64(0)
    from_a = from_a + (shared + first_turn) // 2
    from_b = excess - from_a
    result = pairs.copy()
    result.a_start += rng.binomial(from_a, 0.5)
    result.a_length -= from_a
    result.b_start += rng.binomial(from_b, 0.5)
    result.b_length -= from_b
    return result


def num_distinct_tokens(pairs: Pairs) -> int:
    """Returns how many tokens of the token array are in a segment."""
    starts = np.concatenate([pairs.a_start, pairs.b_start])
    ends = starts + np.concatenate([pairs.a_length, pairs.b_length])
    size = ends.max(initial=0) + 1
    # The segments of a token: segments that have begun, less the ended ones.
    begun, ended = (np.bincount(x, minlength=size) for x in (starts, ends))
    return int(np.count_nonzero(np.cumsum(begun - ended)))


def _to_arrays(pairs: Sequence[Pair]) -> Pairs:
    return np.array(pairs, _COLUMNS).view(np.recarray)
