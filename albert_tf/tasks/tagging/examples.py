"""Examples of tagging: words with tags."""

import collections
import dataclasses
import functools
import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf import checks, files
from albert_tf.metrics.entities import OUTSIDE
from albert_tf.tasks import example_files
from albert_tf.tasks.example_files import Source
from albert_tf.tasks.tagging import rows, words
from albert_tf.tasks.tagging.rows import Columns
from albert_tf.tasks.tagging.words import TextWords

if TYPE_CHECKING:
    from albert_tf.tasks.tagging.data import TaggingData

_LOGGER = logging.getLogger(__name__)
# Kind, start and end of entities, by what is wrong with them.
Faults = collections.defaultdict[str, list[tuple[str, int, int]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggedText:
    """A text with its words, and their tags; None if they are not known.

    Words that were given, not found, have a blank between neighbours.
    """

    guid: str
    text: str
    words: TextWords
    tags: Sequence[str] | None = None
    has_words: bool = True

    @property
    def strings(self) -> list[str]:
        """The words."""
        spans = zip(self.words.starts, self.words.ends, strict=True)
        return [self.text[start:end] for start, end in spans]


def read_examples(
    path: Source, data: "TaggingData", columns: Columns, *, needs_tags: bool
) -> list[TaggedText]:
    """Reads the texts of a file; `data` is the `TaggingData` of their words.

    Columns have a word a line, and its tag; JSON lines have `tokens` and
    `tags`, or `text` and `entities`, or what annotation tools write for them.
    """
    examples: list[TaggedText] = []
    faults = Faults(list)
    for line, row in rows.read_rows(path, columns):
        try:
            example = _example(str(row.get("id", line)), row, data, faults)
            if needs_tags and example.tags is None:
                raise ValueError("it has no tags")
        except (TypeError, ValueError) as error:
            raise rows.fault(path, line, error) from error
        examples.append(example)
    example_files.check_ids([example.guid for example in examples], str(path))
    for what, marks in faults.items():
        kinds = collections.Counter(kind for kind, _, _ in marks)
        _LOGGER.warning(
            "%s: %d entities %s: %s. Of each kind: %s.",
            path,
            len(marks),
            what,
            checks.listed(f"{kind} at {a}:{b}" for kind, a, b in marks),
            checks.listed(f"{kind} ({n})" for kind, n in kinds.items()),
        )
    return examples


def kind_of_words(path: Source, columns: Columns) -> str:
    """Returns which words a raw text has for a model that a file trains.

    Its words are characters if all words of the file are. Marks are apart from
    letters if fewer entities of raw texts end within words then.
    """
    content = [row for _, row in rows.read_rows(path, columns)]
    given = [word for row in content for word in row.get("tokens", ())]
    texts = [row for row in content if row.get("entities")]
    if given and not texts and max(map(len, given)) == 1:
        return words.CHARACTERS
    kinds = words.SPACED, words.APART
    return min(kinds, key=functools.partial(_num_within, texts))


def _num_within(texts: Sequence[files.JsonObject], kind: str) -> int:
    """Returns how many entities start or end within words."""
    number = 0
    for row in texts:
        found = re.finditer(words.word_pattern(kind), row["text"])
        spans = [range(match.start() + 1, match.end()) for match in found]
        within = {place for span in spans for place in span}
        number += sum(not within.isdisjoint(x[:2]) for x in row["entities"])
    return number


def _example(
    guid: str, row: files.JsonObject, data: "TaggingData", faults: Faults
) -> TaggedText:
    if "tokens" in row:
        example = data.example(guid, row["tokens"])
        tags = row["tags"]
        if tags is not None:
            tags = [_name(tag, data.labels) for tag in tags]
            if len(tags) != len(row["tokens"]):
                raise ValueError("there are not as many tags as tokens")
        return dataclasses.replace(example, tags=tags)
    example = data.example(guid, row["text"])
    if (entities := row.get("entities")) is None:
        return example
    tags = _tags_of(example.words, sorted(entities), faults)
    return dataclasses.replace(example, tags=tags)


def _name(tag: Any, labels: Sequence[str]) -> str:
    """Returns the name of a tag, which may be its number, also as a text."""
    is_text = isinstance(tag, str)
    if str(tag).isdecimal() and tag not in labels and (labels or not is_text):
        if int(tag) >= len(labels):
            raise ValueError(f"the tag {tag} needs a name in --labels")
        tag = labels[int(tag)]
    if tag == "":
        raise ValueError("a tag is empty")
    return rows.text_of(tag)


def _tags_of(
    text_words: TextWords, entities: Sequence[rows.Entity], faults: Faults
) -> list[str]:
    """Returns the tags, in IOB2, of the words that entities touch.

    Of entities that overlap, the first one counts; `faults` gets the others,
    and entities that start or end within a word.
    """
    starts, ends = text_words.starts, text_words.ends
    tags = [OUTSIDE] * len(starts)
    for start, end, kind, is_moved in entities:
        mark = kind, start, end
        if is_moved:
            faults["are moved to where their texts are"].append(mark)
        (inside,) = np.nonzero((starts < end) & (start < ends))
        if not inside.size or any(tags[i] != OUTSIDE for i in inside):
            faults["overlap others, or no word, and are left out"].append(mark)
            continue
        for i in inside:
            tags[i] = f"{'I' if i > inside[0] else 'B'}-{kind}"
        if starts[inside[0]] < start or ends[inside[-1]] > end:
            faults["end within words, and take all of these"].append(mark)
    return tags
