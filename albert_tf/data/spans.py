"""Chooses spans of words greedily in a given order, within a budget.

The rule is a loop over the proposed spans of a row: shorten a span that
exceeds the rest of the budget, word by word, until it fits; skip it if it
never fits, or if one of its words is already taken. This file gets the result
of that loop for a whole batch at once:

1. Without a budget, the loop finds the lexicographically first independent
   set of intervals. Parallel rounds find it too: accept each span that comes
   before all spans it overlaps, drop the spans that overlap an accepted one,
   and repeat until none is left.
2. The budget cuts that order at the first span that does not fit.
3. The rest of the budget, a few tokens, is spent one span after another.

`graph_spans.py` does the same steps, under the same names, in the TensorFlow
graph; `masking.py` says why there are two halves.

Floor: data. Pure NumPy. Letters: B rows, W words of the longest row.

Source: google-research/albert,
`create_pretraining_data.create_masked_lm_predictions`; Blelloch, Fineman and
Shun 2012, "Greedy sequential maximal independent set and matching are
parallel on average".
"""

import numpy as np


def choose_spans(
    spans: np.ndarray,
    order: np.ndarray,
    bounds: np.ndarray,
    *,
    budget: np.ndarray,
    taken: np.ndarray | None = None,
) -> np.ndarray:
    """Chooses spans and returns their words.

    Args:
        spans: Int64 `[B, W]`: word w proposes itself and the `spans - 1`
            words after it, which must exist; 0 proposes nothing.
        order: Int64 `[B, W]`, the words of each row in the order of their
            turns.
        bounds: Int64 `[B, W + 1]`: words v to w - 1 have
            `bounds[:, w] - bounds[:, v]` tokens.
        budget: Int64 `[B]`, most tokens to choose.
        taken: Bool `[B, W]`, words that must not be chosen; None for none.

    Returns:
        Bool `[B, W]`, True for chosen words.
    """
    taken = np.zeros(spans.shape, bool) if taken is None else taken
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(order.shape[1])[None], axis=1)
    accepted = _first_independent(spans, rank, taken)
    first_misfit, left = _cut_at_budget(spans, order, bounds, accepted, budget)
    accepted &= rank < first_misfit[:, None]
    chosen = _cover(np.where(accepted, spans, 0))
    _fill_up(chosen, taken, spans, rank, bounds, first_misfit, left)
    return chosen


def _first_independent(
    spans: np.ndarray, rank: np.ndarray, taken: np.ndarray
) -> np.ndarray:
    """Returns bool `[B, W]`: the spans that the loop takes without a budget."""
    accepted = np.zeros(spans.shape, bool)
    waiting = (spans > 0) & ~_touch(spans, taken)
    while waiting.any():
        wins = waiting & ~_is_preceded(spans, rank, waiting)
        accepted |= wins
        covered = _cover(np.where(wins, spans, 0))
        waiting &= ~_touch(spans, covered)
    return accepted


def _is_preceded(
    spans: np.ndarray, rank: np.ndarray, waiting: np.ndarray
) -> np.ndarray:
    """Returns bool `[B, W]`: spans that overlap a waiting one of lower rank."""
    rank = np.where(waiting, rank, rank.shape[1])
    preceded = np.zeros(spans.shape, bool)
    for distance in range(1, spans.max(initial=0)):
        overlap = spans[:, :-distance] > distance
        left, right = rank[:, :-distance], rank[:, distance:]
        preceded[:, :-distance] |= overlap & (right < left)
        preceded[:, distance:] |= overlap & (left < right)
    return preceded


def _touch(spans: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """Returns bool `[B, W]`: whether a span has a word in `marked`."""
    touches = marked & (spans > 0)
    for distance in range(1, spans.max(initial=0)):
        reaches = spans[:, :-distance] > distance
        touches[:, :-distance] |= reaches & marked[:, distance:]
    return touches


def _cover(spans: np.ndarray) -> np.ndarray:
    """Returns bool `[B, W]`: the words of the spans."""
    covered = spans > 0
    for distance in range(1, spans.max(initial=0)):
        covered[:, distance:] |= spans[:, :-distance] > distance
    return covered


def _span_sizes(bounds: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """Returns int `[B, W]`: the tokens of each span."""
    ends = np.arange(spans.shape[1]) + spans
    return np.take_along_axis(bounds, ends, axis=1) - bounds[:, :-1]


def _cut_at_budget(
    spans: np.ndarray,
    order: np.ndarray,
    bounds: np.ndarray,
    accepted: np.ndarray,
    budget: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Finds the first span that exceeds the budget.

    A span that was not accepted, because it overlaps, counts too: shortened to
    the rest of the budget, it may no longer overlap.

    Returns:
        Int `[B]`, the rank of that span, or W if every span fits; and int
        `[B]`, the rest of the budget at its turn.
    """
    num_words = spans.shape[1]
    tokens = _span_sizes(bounds, spans)
    used = np.zeros((len(spans), num_words + 1), np.int64)
    in_order = np.take_along_axis(tokens * accepted, order, axis=1)
    np.cumsum(in_order, axis=1, out=used[:, 1:])
    left = budget[:, None] - used
    misfit = np.ones((len(spans), num_words + 1), bool)
    misfit[:, :-1] = np.take_along_axis(tokens, order, axis=1) > left[:, :-1]
    first_misfit = misfit.argmax(axis=1)
    return first_misfit, left[np.arange(len(left)), first_misfit]


def _fill_up(
    chosen: np.ndarray,
    taken: np.ndarray,
    spans: np.ndarray,
    rank: np.ndarray,
    bounds: np.ndarray,
    from_rank: np.ndarray,
    left: np.ndarray,
) -> None:
    """Spends the rest of the budget on shortened spans, in place.

    Each turn finds, in every row at once, the next span by rank of which some
    words fit and none is taken.
    """
    rows = np.nonzero(left > 0)[0]
    from_rank, left = from_rank[rows], left[rows]
    while len(rows):
        fitting = _longest_fit(bounds[rows], spans[rows], left)
        free = ~_touch(fitting, chosen[rows] | taken[rows])
        may_follow = (fitting > 0) & free & (rank[rows] >= from_rank[:, None])
        rank_or_none = np.where(may_follow, rank[rows], rank.shape[1])
        word = rank_or_none.argmin(axis=1)
        only_it = np.arange(rank.shape[1]) == word[:, None]
        added = np.where(may_follow & only_it, fitting, 0)
        chosen[rows] |= _cover(added)
        left = left - _span_sizes(bounds[rows], added).sum(axis=1)
        from_rank = rank_or_none.min(axis=1) + 1
        go_on = (added.any(axis=1)) & (left > 0)
        rows, from_rank, left = rows[go_on], from_rank[go_on], left[go_on]


def _longest_fit(
    bounds: np.ndarray, spans: np.ndarray, left: np.ndarray
) -> np.ndarray:
    """Returns int `[B, W]`: the words of each span that fit in `left`."""
    fitting = np.zeros_like(spans)
    for length in range(1, spans.max(initial=0) + 1):
        shortened = np.minimum(spans, length)
        fits = _span_sizes(bounds, shortened) <= left[:, None]
        fitting += (spans >= length) & fits
    return fitting
