"""Chooses spans of words greedily by priority, within a budget, in the graph.

The rule and the steps are those of `spans.py`, under the same names; tests
check that both give the same result. `masking.py` says why there are two
halves.

Floor: data. TensorFlow, for `tf.data` on the host. Letters: b rows, W words of
the longest row.

Source: google-research/albert, `create_masked_lm_predictions`; Blelloch,
Fineman and Shun 2012, "Greedy sequential maximal independent set and matching
are parallel on average".
"""

import dataclasses
import functools

import tensorflow as tf

_LAST = tf.int64.max  # Comes after every priority.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spans:
    """Proposed spans: each word proposes itself and some words after it.

    Args:
        start: int32 `[b, W]`, position of the first token of each word. The
            word after the last word of a span must be listed too.
        num_words: int32 `[b, W]`, words of the span; 0 proposes nothing.
        priority: int64 `[b, W]`, not negative; smaller comes first.
        max_words: Largest value of `num_words`.
    """

    start: tf.Tensor
    num_words: tf.Tensor
    priority: tf.Tensor
    max_words: int

    def size(self, num_words: int) -> tf.Tensor:
        """Returns int32 `[b, W]`: tokens of the first `num_words` words."""
        return _later(self.start, num_words) - self.start


def choose_spans(spans: Spans, budget: tf.Tensor) -> tf.Tensor:
    """Chooses spans and returns their words.

    Args:
        spans: The proposed spans.
        budget: int32 `[b]`, most tokens to choose.

    Returns:
        bool `[b, W]`, True for chosen words.
    """
    accepted, turn = _cut_at_budget(spans, _first_independent(spans), budget)
    chosen = _cover(spans, accepted)
    left = budget - _sum_where(accepted, _span_sizes(spans))
    return _fill_up(spans, chosen, left, turn)


def _first_independent(spans: Spans) -> tf.Tensor:
    """Returns bool `[b, W]`: the spans that the loop takes without a budget."""
    waiting = spans.num_words > 0
    _, accepted = tf.while_loop(
        lambda waiting, accepted: tf.reduce_any(waiting),
        functools.partial(_accept_round, spans),
        (waiting, tf.zeros_like(waiting)),
    )
    return accepted


def _accept_round(
    spans: Spans, waiting: tf.Tensor, accepted: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Accepts spans that come before all they overlap, drops the overlapped."""
    priority = tf.where(waiting, spans.priority, _LAST)
    wins = waiting
    for distance in range(1, spans.max_words):
        reaches = spans.num_words > distance
        rival_after = tf.where(reaches, _later(priority, distance), _LAST)
        rival_before = _earlier(
            tf.where(reaches, priority, _LAST), distance, _LAST
        )
        wins &= (priority <= rival_after) & (priority < rival_before)
    return waiting & ~_touch(spans, _cover(spans, wins)), accepted | wins


def _cut_at_budget(
    spans: Spans, accepted: tf.Tensor, budget: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the first span that exceeds the budget, accepted or not.

    Returns:
        bool `[b, W]`, the accepted spans before it; and int64 `[b]`, its
        priority.
    """
    size = _span_sizes(spans)
    order = tf.argsort(spans.priority, axis=1)
    in_order = tf.gather(
        tf.stack([size, tf.where(accepted, size, 0)], axis=2),
        order,
        batch_dims=1,
    )
    before = tf.cumsum(in_order[..., 1], axis=1, exclusive=True)
    exceeds = before + in_order[..., 0] > budget[:, None]
    priority = tf.gather(spans.priority, order, batch_dims=1)
    turn = tf.reduce_min(tf.where(exceeds, priority, _LAST), axis=1)
    return accepted & (spans.priority < turn[:, None]), turn


def _fill_up(
    spans: Spans, chosen: tf.Tensor, left: tf.Tensor, turn: tf.Tensor
) -> tf.Tensor:
    """Spends the rest of the budget on shortened spans, one a row and round.

    `turn` is the priority of the next span to look at.
    """
    return tf.while_loop(
        lambda chosen, left, turn, found: found,
        functools.partial(_take_next, spans),
        (chosen, left, turn, tf.constant(True)),
    )[0]


def _take_next(
    spans: Spans,
    chosen: tf.Tensor,
    left: tf.Tensor,
    turn: tf.Tensor,
    found: tf.Tensor,
) -> tuple[tf.Tensor, ...]:
    """Takes the next span that fits in each row; tells if any row had one."""
    fitting = _longest_fit(spans, left)
    possible = (
        (fitting.num_words > 0)
        & ~_touch(fitting, chosen)
        & (spans.priority >= turn[:, None])
    )
    priority = tf.where(possible, spans.priority, _LAST)
    first = tf.argmin(priority, axis=1, output_type=tf.int32)[:, None]
    found = tf.reduce_any(possible, axis=1, keepdims=True)
    end = first + tf.gather(fitting.num_words, first, batch_dims=1)
    word = tf.range(tf.shape(chosen)[1])[None]
    added = found & (word >= first) & (word < end)
    return (
        chosen | added,
        left - _sum_where(added, spans.size(1)),
        tf.reduce_min(priority, axis=1),
        tf.reduce_any(found),
    )


def _longest_fit(spans: Spans, left: tf.Tensor) -> Spans:
    """Shortens each span, by whole words, to at most `left` tokens."""
    num_words = tf.zeros_like(spans.num_words)
    for count in range(1, spans.max_words + 1):
        fits = (spans.num_words >= count) & (spans.size(count) <= left[:, None])
        num_words += tf.cast(fits, tf.int32)
    return dataclasses.replace(spans, num_words=num_words)


def _span_sizes(spans: Spans) -> tf.Tensor:
    """Returns int32 `[b, W]`: the tokens of each span."""
    last = tf.range(tf.shape(spans.start)[1])[None] + spans.num_words
    return tf.gather(spans.start, last, batch_dims=1) - spans.start


def _cover(spans: Spans, chosen: tf.Tensor) -> tf.Tensor:
    """Returns bool `[b, W]`: the words of the chosen spans."""
    covered = chosen
    for distance in range(1, spans.max_words):
        reaching = chosen & (spans.num_words > distance)
        covered |= _earlier(reaching, distance, False)
    return covered


def _touch(spans: Spans, marked: tf.Tensor) -> tf.Tensor:
    """Returns bool `[b, W]`: whether a span has a word in `marked`."""
    touch = marked
    for distance in range(1, spans.max_words):
        touch |= (spans.num_words > distance) & _later(marked, distance)
    return touch


def _sum_where(condition: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.where(condition, values, 0), axis=1)


def _later(values: tf.Tensor, distance: int) -> tf.Tensor:
    """Returns, for each word, the value `distance` words later, or 0."""
    return tf.pad(values, [[0, 0], [0, distance]])[:, distance:]


def _earlier(values: tf.Tensor, distance: int, fill: int | bool) -> tf.Tensor:
    """Returns, for each word, the value `distance` words earlier, or `fill`."""
    padded = tf.pad(values, [[0, 0], [distance, 0]], constant_values=fill)
    return padded[:, : tf.shape(values)[1]]
