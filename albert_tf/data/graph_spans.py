"""Which spans of words to mask, drawn while records are read.

The rule is the loop that `greedy_spans.py` describes: take spans in order of
priority; shorten one that exceeds what is left of the budget, word by word,
until it fits; skip it if it never does or if it meets a word already taken.
All rows of a batch go through it together, in the graph, and get exactly what
the loop would give. The spans before the budget bites are found in parallel
rounds; the few after that are taken one a round.

Floor: data. TensorFlow, for `tf.data` on the host.

Source: google-research/albert, `create_masked_lm_predictions`; Blelloch,
Fineman and Shun 2012, "Greedy sequential maximal independent set and matching
are parallel on average".
"""

import dataclasses
import functools

import tensorflow as tf

_LAST = tf.int64.max  # A priority below all others.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spans:
    """One proposal for each word of each row: this word and those after it.

    Args:
        start: int32 `[b, W]`, position of the first token of each word. The
            word after the last of a span must be listed too.
        num_words: int32 `[b, W]`, words of the span; 0 proposes nothing.
        priority: int64 `[b, W]`, not negative; smaller comes first.
        max_words: The most that `num_words` holds.
    """

    start: tf.Tensor
    num_words: tf.Tensor
    priority: tf.Tensor
    max_words: int

    def size(self, num_words: int) -> tf.Tensor:
        """Returns int32 `[b, W]`: tokens of the first `num_words` words."""
        return _later(self.start, num_words) - self.start


def choose_words(spans: Spans, budget: tf.Tensor) -> tf.Tensor:
    """Chooses the words to mask.

    Args:
        spans: The proposals.
        budget: int32 `[b]`, the most tokens to mask.

    Returns:
        bool `[b, W]`.
    """
    kept = _independent(spans)
    accepted, turn = _cut_at_budget(spans, kept, budget)
    covered = _cover(spans, accepted)
    left = budget - _sum_where(accepted, _full_size(spans))
    return _fill(spans, covered, left, turn)


def _independent(spans: Spans) -> tf.Tensor:
    """Returns bool `[b, W]`: the spans the loop takes with no budget."""
    live = spans.num_words > 0
    _, kept = tf.while_loop(
        lambda live, kept: tf.reduce_any(live),
        functools.partial(_keep_winners, spans),
        (live, tf.zeros_like(live)),
    )
    return kept


def _keep_winners(
    spans: Spans, live: tf.Tensor, kept: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Keeps the spans that beat their rivals, drops those that meet them."""
    priority = tf.where(live, spans.priority, _LAST)
    winners = live
    for distance in range(1, spans.max_words):
        reaches = spans.num_words > distance
        rival_after = tf.where(reaches, _later(priority, distance), _LAST)
        rival_before = _earlier(
            tf.where(reaches, priority, _LAST), distance, _LAST
        )
        winners &= (priority <= rival_after) & (priority < rival_before)
    return live & ~_meets(spans, _cover(spans, winners)), kept | winners


def _cut_at_budget(
    spans: Spans, kept: tf.Tensor, budget: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds where the budget first bites.

    Returns:
        `(accepted, turn)`: bool `[b, W]`, the kept spans before that; and
        int64 `[b]`, the priority of the first span that exceeds the budget,
        whether it was kept or not, for shortened it may fit.
    """
    size = _full_size(spans)
    order = tf.argsort(spans.priority, axis=1)
    in_order = tf.gather(
        tf.stack([size, tf.where(kept, size, 0)], axis=2), order, batch_dims=1
    )
    before = tf.cumsum(in_order[..., 1], axis=1, exclusive=True)
    exceeds = before + in_order[..., 0] > budget[:, None]
    priority = tf.gather(spans.priority, order, batch_dims=1)
    turn = tf.reduce_min(tf.where(exceeds, priority, _LAST), axis=1)
    return kept & (spans.priority < turn[:, None]), turn


def _fill(
    spans: Spans, covered: tf.Tensor, left: tf.Tensor, turn: tf.Tensor
) -> tf.Tensor:
    """Goes on with the loop, one span of each row at a time.

    Args:
        spans: The proposals.
        covered: bool `[b, W]`, words taken so far.
        left: int32 `[b]`, tokens that may still be taken.
        turn: int64 `[b]`, priority of the next span to look at.

    Returns:
        `covered` with what was added.
    """
    return tf.while_loop(
        lambda covered, left, turn, found: found,
        functools.partial(_take_next, spans),
        (covered, left, turn, tf.constant(True)),
    )[0]


def _take_next(
    spans: Spans,
    covered: tf.Tensor,
    left: tf.Tensor,
    turn: tf.Tensor,
    found: tf.Tensor,
) -> tuple[tf.Tensor, ...]:
    """Takes the next span that fits in each row; says if any row had one."""
    fitting = _fit(spans, left)
    possible = (
        (fitting.num_words > 0)
        & ~_meets(fitting, covered)
        & (spans.priority >= turn[:, None])
    )
    priority = tf.where(possible, spans.priority, _LAST)
    first = tf.argmin(priority, axis=1, output_type=tf.int32)[:, None]
    found = tf.reduce_any(possible, axis=1, keepdims=True)
    end = first + tf.gather(fitting.num_words, first, batch_dims=1)
    word = tf.range(tf.shape(covered)[1])[None]
    added = found & (word >= first) & (word < end)
    return (
        covered | added,
        left - _sum_where(added, spans.size(1)),
        tf.reduce_min(priority, axis=1),
        tf.reduce_any(found),
    )


def _fit(spans: Spans, left: tf.Tensor) -> Spans:
    """Shortens each span by whole words until it has at most `left` tokens."""
    num_words = tf.zeros_like(spans.num_words)
    for count in range(1, spans.max_words + 1):
        fits = (spans.num_words >= count) & (spans.size(count) <= left[:, None])
        num_words += tf.cast(fits, tf.int32)
    return dataclasses.replace(spans, num_words=num_words)


def _full_size(spans: Spans) -> tf.Tensor:
    """Returns int32 `[b, W]`: tokens of each span; 0 where there is none."""
    last = tf.range(tf.shape(spans.start)[1])[None] + spans.num_words
    return tf.gather(spans.start, last, batch_dims=1) - spans.start


def _cover(spans: Spans, chosen: tf.Tensor) -> tf.Tensor:
    """Returns bool `[b, W]`: the words of the chosen spans."""
    covered = chosen
    for distance in range(1, spans.max_words):
        reaching = chosen & (spans.num_words > distance)
        covered |= _earlier(reaching, distance, False)
    return covered


def _meets(spans: Spans, covered: tf.Tensor) -> tf.Tensor:
    """Returns bool `[b, W]`: whether a span has a word in `covered`."""
    meets = covered
    for distance in range(1, spans.max_words):
        meets |= (spans.num_words > distance) & _later(covered, distance)
    return meets


def _sum_where(condition: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.where(condition, values, 0), axis=1)


def _later(values: tf.Tensor, distance: int) -> tf.Tensor:
    """Returns at each word the value `distance` words on, 0 past the end."""
    return tf.pad(values, [[0, 0], [0, distance]])[:, distance:]


def _earlier(values: tf.Tensor, distance: int, fill: int | bool) -> tf.Tensor:
    """Returns at each word the value `distance` words back."""
    padded = tf.pad(values, [[0, 0], [distance, 0]], constant_values=fill)
    return padded[:, : tf.shape(values)[1]]
