"""Examples of tagging: words with tags, and the files that hold them."""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from albert_tf.metrics.entities import OUTSIDE
from albert_tf.tasks import example_files
from albert_tf.tasks.example_files import Source
from albert_tf.tasks.tagging.words import TextWords
from albert_tf.text import text_lines

# Its start and end in the text, in characters, and its kind.
Entity = tuple[int, int, str]
DOCUMENT_START = "-DOCSTART-"
# A row of a file: an id, a text or words, and fields of an example.
Row = tuple[str, str | Sequence[str], dict[str, Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggedText:
    """A text with its words, and their tags; None if they are not known.

    Words that were given, not found, have a blank between neighbours. The file
    may have marked that a document starts here.
    """

    guid: str
    text: str
    words: TextWords
    tags: Sequence[str] | None = None
    has_words: bool = True
    starts_document: bool = False

    @property
    def strings(self) -> list[str]:
        """The words."""
        spans = zip(self.words.starts, self.words.ends, strict=True)
        return [self.text[start:end] for start, end in spans]


def read_rows(path: Source, labels: Sequence[str]) -> Iterator[Row]:
    """Yields the rows of a file; `labels` are the names of numbers.

    CoNLL has a word a line, its tag in the last column; JSON lines have
    `tokens` and `tags`, or `text` and `entities`.
    """
    if not example_files.has_objects(path):
        yield from _read_conll(path)
        return
    for line, row in example_files.read_objects(path):
        guid, names = str(row.get("id", line)), {*row}
        try:
            if "tokens" in names:
                tags = row.get("tags")
                if tags is not None:
                    tags = [_name(tag, labels) for tag in tags]
                    if len(tags) != len(row["tokens"]):
                        raise ValueError("there are not as many tags as tokens")
                yield guid, [*map(_text, row["tokens"])], {"tags": tags}
            elif "entities" in names:
                entities = [*map(_entity, row["entities"])]
                yield guid, _text(row["text"]), {"entities": entities}
            else:
                yield guid, _text(row["text"]), {}
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}, line {line}: it must have `tokens` and `tags`, or "
                f"`text` and `entities` (start, end, label). "
                f"{type(error).__name__}: {error}."
            ) from error


def _read_conll(path: Any) -> Iterator[Row]:
    rows: list[list[str]] = []
    first, num_columns, is_marked = 1, 0, False
    for line, text in enumerate((*text_lines.read_lines(path), ""), start=1):
        starts_document = text.startswith(DOCUMENT_START)
        if text.strip() and not starts_document:
            fields = text.split("\t")
            if len(fields) == 1:
                fields = re.split(" +", text.strip(" "))
            num_columns = num_columns or len(fields)
            if len(fields) != num_columns or not fields[-1]:
                raise ValueError(
                    f"{path}, line {line} has {len(fields)} columns, the first "
                    f"line {num_columns}. Each must be a word, a tab or blank, "
                    "and its tag."
                )
            first = first if rows else line
            rows.append(fields)
            continue
        if rows:
            tags = [row[-1] for row in rows] if num_columns > 1 else None
            others = {"tags": tags, "starts_document": is_marked}
            yield str(first), [row[0] for row in rows], others
            rows, is_marked = [], False
        is_marked |= starts_document


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _name(tag: Any, labels: Sequence[str]) -> str:
    """Returns the name of a tag, which may be its number."""
    if isinstance(tag, int) and not 0 <= tag < len(labels):
        raise ValueError(f"the tag {tag} needs a name in --labels")
    name = labels[tag] if isinstance(tag, int) else _text(tag)
    if not name:
        raise ValueError("a tag is empty")
    return name


def _entity(one: Any) -> Entity:
    if isinstance(one, dict):
        one = [one[name] for name in ("start", "end", "label")]
    start, end, label = one
    return int(start), int(end), _text(label)


def tags_of(
    words: TextWords, entities: Sequence[Entity], lost: list[str]
) -> list[str]:
    """Returns the tags, in IOB2, of the words that entities touch.

    Of entities that overlap, the first one is kept; `lost` gets those that do,
    or that start or end within a word.
    """
    tags = [OUTSIDE] * len(words.starts)
    for start, end, kind in sorted(entities):
        (inside,) = np.nonzero((words.starts < end) & (start < words.ends))
        is_free = inside.size and all(tags[i] == OUTSIDE for i in inside)
        if is_free:
            for i in inside:
                tags[i] = f"{'I' if i > inside[0] else 'B'}-{kind}"
        if (
            not is_free
            or (words.starts[inside[0]] < start)
            or (end < words.ends[inside[-1]])
        ):
            lost.append(f"{kind} at {start}:{end}")
    return tags
