"""Scores of tags: of the entities that they mark, and of words.

Source: seqeval 1.2.2, its default mode (that of CoNLL's `conlleval`) and its
strict mode.
"""

import collections
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from albert_tf import checks

OUTSIDE, PLAIN = "O", "plain"
_PREFIXED = re.compile(r"[BIESLU](-.*)?")
# A step from a tag to the next is a letter of each, and `=` or `!` if their
# kinds are equal or differ. Which steps start and end entities in any scheme:
_STARTS = re.compile(r".[BS].|[ESO][EI].|.[^.O]!")
_ENDS = re.compile(r"[ES]..|[BI][BSO].|[^.O].!")
# By scheme, which steps start entities, go on, and end them in strict mode.
_SCHEMES = {
    "IOB1": (r"OI.|II!|BI.|[IB]B=", r"[BI]I=", r"[BI]I!|[BI]O.|IB.|BB="),
    "IOB2": (r".B.", r"[BI]I=", r"[BI]I!|[BI][OB]."),
    "IOBES": (r".[BS].", r"[BI][IE]=", r"[ES].."),
    "BILOU": (r".[BU].", r"[BI][IL]=", r"[LU].."),
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

    Plain tags, such as parts of speech, mark no entities. In IOB1, most
    entities start with `I`: only one that follows its kind starts with `B`.
    """
    letters, starts = set(), collections.Counter[str]()
    for tags in sentences:
        for tag, step in zip(tags, _steps([OUTSIDE, *tags]), strict=True):
            if tag != OUTSIDE and not _PREFIXED.fullmatch(tag):
                return PLAIN
            letters.add(tag[0])
            starts[tag[0]] += step[0] == OUTSIDE or step[2] == "!"
    kinds = {"IOBES": {*"ES"}, "BILOU": {*"LU"}}
    found = [name for name, own in kinds.items() if own & letters]
    if len(found) == 2 or letters <= {OUTSIDE}:
        return PLAIN
    return [*found, "IOB1" if starts["I"] > starts["B"] else "IOB2"][0]


def find_entities(
    tags: Sequence[str], *, scheme: str | None = None
) -> list[Entity]:
    """Returns the entities that tags mark; see `entity_scores`.

    >>> find_entities(["I-PER", "I-PER", "O"])
    [Entity(kind='PER', start=0, end=2)]
    """
    if scheme is not None:
        return _strict_entities(tags, scheme)
    found, start = [], 0
    for i, step in enumerate(_steps([OUTSIDE, *tags, OUTSIDE])):
        if _ENDS.fullmatch(step):
            found.append(Entity(_kind(tags[i - 1]), start, i))
        if _STARTS.fullmatch(step):
            start = i
    return found


def _strict_entities(tags: Sequence[str], scheme: str) -> list[Entity]:
    checks.check_choice("scheme", scheme, tuple(_SCHEMES))
    for tag in tags:
        if tag[:1] not in {*scheme, OUTSIDE}:
            raise ValueError(f"{scheme} has no tag {tag!r}.")
    starts, inside, ends = _SCHEMES[scheme]
    steps = _steps([OUTSIDE, *tags, OUTSIDE], is_strict=True)
    found, i = [], 0
    while i < len(tags):
        start = i
        i += 1
        if re.fullmatch(starts, steps[start]):
            while re.fullmatch(inside, steps[i]):
                i += 1
            if re.fullmatch(ends, steps[i]):
                kind = _kind(tags[start], is_strict=True)
                found.append(Entity(kind, start, i))
    return found


def _kind(tag: str, *, is_strict: bool = False) -> str:
    # As in seqeval, whose modes differ in this, too.
    kind = tag[1:].strip("-") if is_strict else tag[1:].split("-", 1)[-1]
    return kind or "_"


def _steps(tags: Sequence[str], *, is_strict: bool = False) -> list[str]:
    kinds = [_kind(tag, is_strict=is_strict) for tag in tags]
    return [
        f"{tags[i - 1][0]}{tags[i][0]}{'!='[kinds[i - 1] == kinds[i]]}"
        for i in range(1, len(tags))
    ]


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
        `f1`, `precision` and `recall` of all entities, `accuracy` of words; of
        each kind, such as PER, `f1_of_PER` and so on, and `number_of_PER`, that
        of true ones. What would be 0 / 0 is 0.

    >>> entity_scores([["B-PER", "O"]], [["B-PER", "B-PER"]])["precision"]
    0.5
    """
    if [*map(len, true_tags)] != [*map(len, predicted_tags)]:
        raise ValueError("There must be a predicted tag for each true one.")
    # An entity ends with its sentence.
    flat = [
        [tag for tags in sentences for tag in (*tags, OUTSIDE)]
        for sentences in (true_tags, predicted_tags)
    ]
    found = [{*find_entities(tags, scheme=scheme)} for tags in flat]
    scores = {}
    for kind in ("", *sorted({entity.kind for entity in found[0] | found[1]})):
        true, predicted = (
            {entity for entity in own if kind in ("", entity.kind)}
            for own in found
        )
        precision, recall = (
            len(true & predicted) / max(1, len(own))
            for own in (predicted, true)
        )
        f1 = 2 * precision * recall / ((precision + recall) or 1.0)
        ending = f"_of_{kind}" if kind else ""
        scores[f"f1{ending}"] = f1
        scores[f"precision{ending}"] = precision
        scores[f"recall{ending}"] = recall
        if kind:
            scores[f"number{ending}"] = float(len(true))
            continue
        num_others = len(true_tags)
        num_same = sum(a == b for a, b in zip(*flat, strict=True)) - num_others
        scores["accuracy"] = num_same / max(1, len(flat[0]) - num_others)
    return scores
