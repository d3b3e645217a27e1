"""From scores of tags to tags that follow their scheme, and to entities.

Data flow: log-probabilities of words -> [this file] -> tags -> entities.

Source: Viterbi 1967, for the best sequence of tags.
"""

import collections
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.metrics import entities
from albert_tf.metrics.entities import OUTSIDE, PLAIN
from albert_tf.tasks.labelled_texts import LEAST_EXAMPLES

# In nats: more than the probabilities of some words can outweigh.
NEVER = 1e4
# A word without tokens rather is outside than within, and begins nothing; no
# cost is a multiple of another, which would be ties.
_COSTS = {OUTSIDE: 0.0, "B": 1.0, "S": 1.0}
_COST_WITHIN = 0.0011


@functools.cache
def scheme_of(labels: tuple[str, ...]) -> str:
    """Returns the scheme of tags, each seen alone."""
    return entities.scheme_of([label] for label in labels)


def find_entities(
    tags: Sequence[str], labels: tuple[str, ...]
) -> list[entities.Entity]:
    """Returns entities; of plain tags, words, or runs if some are `O`.

    `labels` are all tags.
    """
    return entities.find_entities(readable(tags, labels))


def readable(tags: Sequence[str], labels: tuple[str, ...]) -> list[str]:
    """Returns tags that seqeval's default mode reads: others as IOBES."""
    scheme = scheme_of(labels)
    if scheme == PLAIN:
        mark = "I-" if OUTSIDE in labels else "S-"
        return [tag if tag == OUTSIDE else f"{mark}{tag}" for tag in tags]
    return entities.as_iobes(tags, scheme)


class Decoding:
    """Finds the best legal tags of a text.

    Args:
        labels: All K tags.
        scheme: Of the tags of the training; if it is not known, all steps from
            a tag to a tag are legal.
        never_first, never_last: Words that no entity starts, or ends, with.

    Attributes:
        illegal, starts, ends: Bool `[K + 1, K + 1]`: which steps from a tag to
            another are illegal, start an entity at the second, and end one at
            the first. Last comes what is before and after a text.
        of_no_tokens: Float64 `[K]`, the log-probabilities of a word without
            tokens.
    """

    def __init__(
        self,
        labels: tuple[str, ...],
        scheme: str = PLAIN,
        never_first: Sequence[str] = (),
        never_last: Sequence[str] = (),
    ) -> None:
        self.labels = labels
        self.never_first, self.never_last = never_first, never_last
        tags = readable([*labels, OUTSIDE], labels)
        # The labels may have other names than in the training.
        is_plain = scheme_of(labels) == PLAIN
        tables = entities.step_tables(tags, PLAIN if is_plain else scheme)
        self.illegal, self.starts, self.ends = tables
        costs = [_COSTS.get(tag[0], _COST_WITHIN) for tag in tags[:-1]]
        self.of_no_tokens = -np.array(costs)

    @property
    def is_free(self) -> bool:
        """Whether any sequence of tags is legal."""
        return not (self.illegal.any() or self.never_first or self.never_last)

    def best_tags(self, log_probs: np.ndarray, words: list[str]) -> np.ndarray:
        """Returns the tags, int `[W]`, from log-probabilities `[W, K]`."""
        if self.is_free:
            return np.array(log_probs.argmax(axis=-1))
        # Of each step, also to the end: whether its second word never starts,
        # or its first one never ends an entity.
        first = [*(word in self.never_first for word in words), False]
        last = [False, *(word in self.never_last for word in words)]
        scores = np.pad(log_probs, (0, 1), constant_values=-NEVER)
        scores[-1, -1] = 0
        total, backs = scores[-1], []
        for score, is_first, is_last in zip(scores, first, last, strict=True):
            faults = self.illegal + is_first * self.starts + is_last * self.ends
            by_step = total[:, None] - NEVER * faults
            backs.append(by_step.argmax(axis=0))
            total = by_step.max(axis=0) + score
        path = [len(self.illegal) - 1]
        for back in reversed(backs):
            path.append(back[path[-1]])
        return np.array(path[-2:0:-1], int)


def learn_rules(
    tagged: Sequence[tuple[Sequence[str], Sequence[str]]],
    labels: tuple[str, ...],
) -> dict[str, Any]:
    """Returns the arguments of `Decoding`, from words of texts and their tags.

    Marks that the texts have several times, but no entity at its ends, are at
    no ends.
    """
    scheme = entities.scheme_of(tags for _, tags in tagged)
    if scheme == PLAIN:
        return {}
    seen: collections.Counter[str] = collections.Counter()
    ends: dict[str, set[str]] = {"never_first": set(), "never_last": set()}
    for words, tags in tagged:
        seen.update(w for w in words if not any(map(str.isalnum, w)))
        for _, start, end in find_entities(tags, labels):
            ends["never_first"].add(words[start])
            ends["never_last"].add(words[end - 1])
    marks = {word for word, n in seen.items() if n >= LEAST_EXAMPLES}
    never = {name: sorted(marks - words) for name, words in ends.items()}
    return {"scheme": scheme, **never}
