"""Scores tags of words, and the entities that the tags mark.

Source: seqeval 1.2.2 in its default mode, which is CoNLL's `conlleval`.
"""

import bisect
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

OUTSIDE, PLAIN = "O", "plain"
# Tags of any scheme. BMES has `M` for `I`; its other letters mean the same as
# in IOBES.
PREFIXED = re.compile(r"[BIESLUM](-.*)?|O")
# A step between two tags is written as both letters, and `=` or `!` if their
# kinds are equal or differ. These steps start and end entities in any scheme:
_STARTS = r".[BS]\W|[ESO][EI]\W|.[^O]!"
_ENDS = r"[ES].\W|[BI][BSO]\W|[^O].!"
# These are no part of a scheme; of others, all are.
_ILLEGAL = {
    "IOB2": r"OI\W|.I!",
    **dict.fromkeys(
        ("IOBES", "BILOU", "BMES"), r"[ESO][IE]\W|[BI][BSO]\W|.[IE]!"
    ),
}
_AS_IOBES = {"BILOU": {"L": "E", "U": "S"}, "BMES": {"M": "I"}}


class Entity(NamedTuple):
    """An entity of a kind, from word `start` up to, but not with, `end`."""

    kind: str
    start: int
    end: int


def scheme_of(sentences: Iterable[Sequence[str]]) -> str:
    """Recognises the scheme of tags: IOB1, IOB2, IOBES, BMES, BILOU or plain.

    >>> scheme_of([["O", "I-PER", "I-PER"]]), scheme_of([["NOUN", "VERB"]])
    ('IOB1', 'plain')

    Plain tags, such as parts of speech, mark no entities. In IOB1, most
    entities start with `I`: only one that follows its kind starts with `B`.
    """
    flat = [tag for tags in sentences for tag in (OUTSIDE, *tags)]
    if not all(map(PREFIXED.fullmatch, flat)):
        return PLAIN
    letters = {tag[0] for tag in flat}
    if "M" in letters:
        return "BMES" if letters <= {*"BMESO"} else PLAIN
    schemes = [n for n in ("IOBES", "BILOU") if letters & {*n} - {*"BIO"}]
    if len(schemes) == 2 or letters <= {OUTSIDE}:
        return PLAIN
    steps = _steps(flat)
    num_i, num_b = (len(re.findall(rf"O{x}\W|.{x}!", steps)) for x in "IB")
    return [*schemes, "IOB1" if num_i > num_b else "IOB2"][0]


def find_entities(tags: Sequence[str]) -> list[Entity]:
    """Returns the entities that tags mark; see `entity_scores`.

    >>> find_entities(["I-PER", "I-PER", "O"])
    [Entity(kind='PER', start=0, end=2)]
    """
    steps = _steps(tags)
    # In invalid tags, an end may have no start: it takes the last start.
    starts = [0, *(step.start() // 3 for step in re.finditer(_STARTS, steps))]
    entities = []
    for step in re.finditer(_ENDS, steps):
        end = step.start() // 3
        start = starts[bisect.bisect_left(starts, end) - 1]
        entities.append(Entity(_kind(tags[end - 1]), start, end))
    return entities


def as_iobes(tags: Sequence[str], scheme: str) -> list[str]:
    """Returns tags of BILOU and BMES as tags of IOBES, and others as given.

    >>> as_iobes(["B-PER", "L-PER", "O"], "BILOU")
    ['B-PER', 'E-PER', 'O']
    """
    letters = _AS_IOBES.get(scheme, {})
    return [letters.get(tag[:1], tag[:1]) + tag[1:] for tag in tags]


def step_tables(tags: Sequence[str], scheme: str) -> np.ndarray:
    """Returns what steps between two of N tags are, bool `[3, N, N]`.

    Which are illegal in the scheme, which start an entity at the second tag,
    and which end one at the first. Tags are as `as_iobes` returns them.
    """
    patterns = _ILLEGAL.get(scheme, "(?!)"), _STARTS, _ENDS
    steps = [[_steps([a, b])[3:6] for b in tags] for a in tags]
    return np.array(
        [
            [[bool(re.match(pattern, step)) for step in row] for row in steps]
            for pattern in patterns
        ]
    )


def _kind(tag: str) -> str:
    return tag[1:].split("-", 1)[-1] or "_"


def _steps(tags: Sequence[str]) -> str:
    """Writes the steps to each tag, and to the end, as three characters each.

    >>> _steps(["B-PER", "I-PER"])
    'OB!BI=IO!'
    """
    tags = [OUTSIDE, *tags, OUTSIDE]
    kinds = [*map(_kind, tags)]
    # seqeval takes "." for "O", too.
    letters = "".join(tag[0] for tag in tags).replace(".", OUTSIDE)
    letters = re.sub(r"\W", "_", letters)
    same = ["!="[a == b] for a, b in zip(kinds, kinds[1:], strict=False)]
    return "".join(map("".join, zip(letters, letters[1:], same, strict=False)))


def entity_scores(
    true_tags: Sequence[Sequence[str]],
    predicted_tags: Sequence[Sequence[str]],
) -> dict[str, float]:
    """Scores entities, which are right if kind and words are right.

    Args:
        true_tags: The tags of each sentence.
        predicted_tags: Tags of the same sentences.

    Returns:
        `f1`, `precision` and `recall` of all entities, and `accuracy` of words.
        For each kind, such as PER, `f1_of_PER` and so on, and `number_of_PER`,
        the number of true entities. 0 / 0 counts as 0.

    >>> entity_scores([["B-PER", "O"]], [["B-PER", "B-PER"]])["precision"]
    0.5
    """
    if [*map(len, true_tags)] != [*map(len, predicted_tags)]:
        raise ValueError("There must be a predicted tag for each true one.")
    # Differs: seqeval's default mode takes other letters than these for `I`.
    scheme = scheme_of([*true_tags, *predicted_tags])
    # An entity ends with its sentence.
    flat = [
        as_iobes(
            [tag for tags in sentences for tag in (*tags, OUTSIDE)], scheme
        )
        for sentences in (true_tags, predicted_tags)
    ]
    true, predicted = ({*find_entities(tags)} for tags in flat)
    num_others = len(true_tags)
    num_same = sum(a == b for a, b in zip(*flat, strict=True)) - num_others
    scores = {"accuracy": num_same / max(1, len(flat[0]) - num_others)}
    for kind in ("", *sorted({entity.kind for entity in true | predicted})):
        num_true, num_predicted, num_right = (
            sum(kind in ("", entity.kind) for entity in entities)
            for entities in (true, predicted, true & predicted)
        )
        ending = f"_of_{kind}" if kind else ""
        # F1, the primary metric, is first. This is its usual definition.
        scores[f"f1{ending}"] = 2 * num_right / max(1, num_true + num_predicted)
        scores[f"precision{ending}"] = num_right / max(1, num_predicted)
        scores[f"recall{ending}"] = num_right / max(1, num_true)
        if kind:
            scores[f"number{ending}"] = float(num_true)
    return scores
