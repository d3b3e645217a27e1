"""Examples of tagging: words with tags, and the files that hold them."""

import dataclasses
import logging
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf import checks, files
from albert_tf.metrics.entities import OUTSIDE
from albert_tf.tasks import example_files
from albert_tf.tasks.example_files import Source
from albert_tf.tasks.tagging.words import TextWords
from albert_tf.text import text_lines

if TYPE_CHECKING:
    from albert_tf.tasks.tagging.data import TaggingData

_LOGGER = logging.getLogger(__name__)
# Its start and end in the text, in characters, and its kind.
Entity = tuple[int, int, str]


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
    path: Source, data: "TaggingData", *, needs_tags: bool
) -> list[TaggedText]:
    """Reads the texts of a file; `data` is the `TaggingData` of their words.

    CoNLL has a word a line, its tag in the last column; JSON lines have
    `tokens` and `tags`, or `text` and `entities`.
    """
    rows = _read_conll(path)
    if example_files.has_objects(path):
        rows = example_files.read_objects(path)
    examples: list[TaggedText] = []
    lost: list[str] = []
    for line, row in rows:
        try:
            example = _example(str(row.get("id", line)), row, data, lost)
            if needs_tags and example.tags is None:
                raise ValueError("it has no tags")
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}, line {line}: it must have `tokens` and `tags`, or "
                f"`text` and `entities` (start, end, label). "
                f"{type(error).__name__}: {error}."
            ) from error
        examples.append(example)
    example_files.check_ids([example.guid for example in examples], str(path))
    if lost:
        _LOGGER.warning(
            "%s: %d entities overlap others, or end within words: %s.",
            path,
            len(lost),
            checks.listed(lost),
        )
    return examples


def _read_conll(path: Any) -> Iterator[tuple[int, files.JsonObject]]:
    rows: list[list[str]] = []
    first, num_columns = 1, 0
    for line, text in enumerate((*text_lines.read_lines(path), ""), start=1):
        if text.strip() and not text.startswith("-DOCSTART-"):
            fields = [field.strip(" ") for field in text.split("\t")]
            if len(fields) == 1:
                fields = re.split(" +", text.strip(" "))
            num_columns = num_columns or len(fields)
            if len(fields) != num_columns:
                raise ValueError(
                    f"{path}, line {line} has {len(fields)} columns, the first "
                    f"line {num_columns}. Each must be a word, a tab or blank, "
                    "and its tag."
                )
            first = first if rows else line
            rows.append(fields)
        elif rows:
            tags = [row[-1] for row in rows] if num_columns > 1 else None
            yield first, {"tokens": [row[0] for row in rows], "tags": tags}
            rows = []


def _example(
    guid: str, row: files.JsonObject, data: "TaggingData", lost: list[str]
) -> TaggedText:
    tags = row.get("tags")
    if isinstance(tags, str) or isinstance(row.get("tokens"), str):
        raise TypeError("a text is no list")
    if "tokens" in row:
        example = data.example(guid, [*map(_text, row["tokens"])])
        if tags is not None:
            tags = [_name(tag, data.labels) for tag in tags]
            if len(tags) != len(row["tokens"]):
                raise ValueError("there are not as many tags as tokens")
    else:
        example = data.example(guid, _text(row["text"]))
        tags = row.get("entities")
        if tags is not None:
            entities = [_entity(each, len(example.text)) for each in tags]
            tags = _tags_of(example.words, entities, lost)
    return dataclasses.replace(example, tags=tags)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _name(tag: object, labels: Sequence[str]) -> str:
    """Returns the name of a tag, which may be its number."""
    if isinstance(tag, int) and not 0 <= tag < len(labels):
        raise ValueError(f"the tag {tag} needs a name in --labels")
    name = labels[tag] if isinstance(tag, int) else _text(tag)
    if not name:
        raise ValueError("a tag is empty")
    return name


def _entity(entity: Any, length: int) -> Entity:
    if isinstance(entity, dict):
        entity = [entity[name] for name in ("start", "end", "label")]
    start, end, label = entity
    if not (0 <= start <= end <= length and label):
        raise ValueError(f"{entity} is no part of the text with a label")
    return int(start), int(end), _text(label)


def _tags_of(
    words: TextWords, entities: Sequence[Entity], lost: list[str]
) -> list[str]:
    """Returns the tags, in IOB2, of the words that entities touch.

    Of entities that overlap, the first one counts; `lost` gets the others, and
    entities that start or end within a word.
    """
    tags = [OUTSIDE] * len(words.starts)
    for start, end, kind in sorted(entities):
        (inside,) = np.nonzero((words.starts < end) & (start < words.ends))
        is_free = all(tags[i] == OUTSIDE for i in inside)
        if is_free:
            for i in inside:
                tags[i] = f"{'I' if i > inside[0] else 'B'}-{kind}"
        touched = words.starts[inside], words.ends[inside]
        is_cut = any(touched[0] < start) or any(touched[1] > end)
        if is_cut or not (is_free and inside.size):
            lost.append(f"{kind} at {start}:{end}")
    return tags
