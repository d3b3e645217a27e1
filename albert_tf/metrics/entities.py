"""Scores of tags: of entities, which they mark, and of single words.

Source: seqeval 1.2.2, `metrics.sequence_labeling` (the default mode, that of
CoNLL's `conlleval`) and `scheme` (the strict mode).
"""

import collections
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from albert_tf import checks
from albert_tf.metrics.scores import Score, Scores

OUTSIDE = "O"
PLAIN = "plain"
_PREFIXED = re.compile(r"[BIESLU](-.*)?")
# A step from a tag to the next, as a letter of each, and `=` or `!` if their
# kinds are equal or differ: where entities start and end, whatever the scheme.
_START = re.compile(r".[BS].|[ESO][EI].|.[^.O]!")
_END = re.compile(r"[ES]..|[BI][BSO].|[^.O].!")


class _Scheme(NamedTuple):
    """The letters of a strict scheme, and where entities start, go on, end."""

    letters: str
    start: str
    inside: str
    end: str


_SCHEMES = {
    "IOB1": _Scheme(
        "IOB",
        r"OI.|II!|BI.|[IB]B=",
        r"[BI]I=",
        r"[BI]I!|[BI]O.|IB.|BB=",
    ),
    "IOB2": _Scheme("IOB", r".B.", r"[BI]I=", r"[BI]I!|[BI][OB]."),
    "IOBES": _Scheme("IOBES", r".[BS].", r"[BI][IE]=", r"[ES].."),
    "BILOU": _Scheme("BILOU", r".[BU].", r"[BI][IL]=", r"[LU].."),
}


class Entity(NamedTuple):
    """An entity: its kind, its first word, and the first word behind it."""

    kind: str
    start: int
    end: int


def scheme_of(sentences: Iterable[Sequence[str]]) -> str:
    """Returns the scheme of tags: IOB1, IOB2, IOBES, BILOU or plain.

    >>> scheme_of([["O", "I-PER", "I-PER"]]), scheme_of([["NOUN", "VERB"]])
    ('IOB1', 'plain')

    Those of plain tags mark no entities, such as parts of speech. IOB1 has `B`
    only between neighbours of a kind, so that most entities start with `I`.
    """
    starts: collections.Counter[str] = collections.Counter()
    letters = set()
    for tags in sentences:
        steps = _steps([OUTSIDE, *tags])
        for tag, step in zip(tags, steps, strict=True):
            if tag != OUTSIDE and not _PREFIXED.fullmatch(tag):
                return PLAIN
            letters.add(tag[0])
            if step[0] == OUTSIDE or step[2] == "!":
                starts[tag[0]] += 1
    if letters & {*"LU"}:
        return PLAIN if letters & {*"ES"} else "BILOU"
    if letters & {*"ES"}:
        return "IOBES"
    if letters <= {OUTSIDE}:
        return PLAIN
    return "IOB1" if starts["I"] > starts["B"] else "IOB2"


def find_entities(
    tags: Sequence[str], *, scheme: str | None = None
) -> list[Entity]:
    """Returns the entities of a sequence of tags, in their order.

    Without a `scheme`, as seqeval's default mode does; with one, its strict
    mode: entities that do not keep to it are none.

    >>> find_entities(["I-PER", "I-PER", "O"])
    [Entity(kind='PER', start=0, end=2)]
    """
    if scheme is not None:
        return _strict(tags, scheme)
    found, start, last = [], 0, ""
    for i, (tag, step) in enumerate(
        zip([*tags, OUTSIDE], _steps([OUTSIDE, *tags, OUTSIDE]), strict=True)
    ):
        if _END.fullmatch(step):
            found.append(Entity(last, start, i))
        if _START.fullmatch(step):
            start = i
        last = _kind(tag)
    return found


def _strict(tags: Sequence[str], scheme: str) -> list[Entity]:
    checks.check_choice("scheme", scheme, tuple(_SCHEMES))
    rules = _SCHEMES[scheme]
    for tag in tags:
        if tag[:1] not in {*rules.letters}:
            raise ValueError(f"{scheme} has no tag {tag!r}.")
    steps = _steps([OUTSIDE, *tags, OUTSIDE], strict=True)
    found, i = [], 0
    while i < len(tags):
        start = i
        i += 1
        if not re.fullmatch(rules.start, steps[start]):
            continue
        while re.fullmatch(rules.inside, steps[i]):
            i += 1
        if re.fullmatch(rules.end, steps[i]):
            kind = tags[start][1:].strip("-") or "_"
            found.append(Entity(kind, start, i))
    return found


def _kind(tag: str) -> str:
    return tag[1:].split("-", maxsplit=1)[-1] or "_"


def _steps(tags: Sequence[str], *, strict: bool = False) -> list[str]:
    kinds = [tag[1:].strip("-") if strict else _kind(tag) for tag in tags]
    return [
        f"{tags[i - 1][0]}{tags[i][0]}{'!='[kinds[i - 1] == kinds[i]]}"
        for i in range(1, len(tags))
    ]


def score_tags(
    true_tags: Sequence[Sequence[str]],
    predicted_tags: Sequence[Sequence[str]],
    *,
    scheme: str | None = None,
) -> Scores:
    """Returns the scores of `entity_scores`."""
    if [*map(len, true_tags)] != [*map(len, predicted_tags)]:
        raise ValueError("True and predicted tags must be as many.")
    pairs, counts = [], []
    for sentences in (true_tags, predicted_tags):
        # An entity ends with its sentence.
        flat = [tag for tags in sentences for tag in (*tags, OUTSIDE)]
        pairs.append(flat)
        counts.append({*find_entities(flat, scheme=scheme)})
    true, predicted = counts
    num_words = sum(map(len, true_tags))
    same = sum(a == b for a, b in zip(*pairs, strict=True)) - len(true_tags)
    entries = [
        *_of_sets(true, predicted),
        Score("accuracy", same / max(1, num_words)),
    ]
    for kind in sorted({entity.kind for entity in true | predicted}):
        of_kind = (
            {entity for entity in entities if entity.kind == kind}
            for entities in counts
        )
        entries += (
            Score.of_label(score.key, kind, score.value)
            for score in _of_sets(*of_kind, counted=True)
        )
    return Scores(entries=tuple(entries))


def _of_sets(
    true: set[Any], predicted: set[Any], *, counted: bool = False
) -> list[Score]:
    num_right = len(true & predicted)
    precision = num_right / max(1, len(predicted))
    recall = num_right / max(1, len(true))
    f1 = 2 * precision * recall / ((precision + recall) or 1.0)
    scores = [
        Score("f1", f1),
        Score("precision", precision),
        Score("recall", recall),
    ]
    return scores + [Score("number", float(len(true)))] * counted


def entity_scores(
    true_tags: Sequence[Sequence[str]],
    predicted_tags: Sequence[Sequence[str]],
    *,
    scheme: str | None = None,
) -> dict[str, float]:
    """Returns scores of entities: a right one has its kind and its words.

    Args:
        true_tags: The tags of each sentence.
        predicted_tags: As many, of the same lengths.
        scheme: None for seqeval's default mode, which reads entities from any
            tags; IOB1, IOB2, IOBES or BILOU for its strict mode of this scheme.

    Returns:
        `f1`, `precision` and `recall` of all entities, `accuracy` of words;
        and of each kind, such as PER, `f1_of_PER`, `precision_of_PER`,
        `recall_of_PER`, and its number of true entities, `number_of_PER`. What
        would be 0 / 0 is 0.

    >>> entity_scores([["B-PER", "O"]], [["B-PER", "B-PER"]])["precision"]
    0.5
    """
    return score_tags(true_tags, predicted_tags, scheme=scheme).flat()
