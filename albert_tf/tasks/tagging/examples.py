"""Examples of tagging: words with tags, and the files that hold them.

CoNLL has a word a line and its tag in the last column; JSON lines have `tokens`
and `tags`, or `text` and `entities`.
"""

import dataclasses
import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from albert_tf import checks
from albert_tf.metrics.entities import OUTSIDE
from albert_tf.tasks import example_files
from albert_tf.tasks.example_files import RowsInMemory, Source
from albert_tf.text import text_lines

_LOGGER = logging.getLogger(__name__)
DOCUMENT_START = "-DOCSTART-"
Spans = tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggedText:
    """Words of a text, and their tags.

    Args:
        text: What is encoded.
        words: Where each word starts and ends in it, in characters.
        tags: One of each word; None if they are not known.
        raw_text: What was given, if the words had to be found in it, or else
            the words with a blank between neighbours.
        raw_words: Where they are in that.
        has_words: Whether they were given.
        starts_document: Whether the file marks that a document starts here.
    """

    guid: str
    text: str
    words: Spans
    tags: tuple[str, ...] | None = None
    raw_text: str
    raw_words: Spans
    has_words: bool = True
    starts_document: bool = False


def of_words(
    guid: str, words: Sequence[str], tags: Any = None, **others: Any
) -> TaggedText:
    """Returns an example of words, each of which may have blanks, or none."""
    text, spans = " ".join(words), []
    start = 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    given = {"raw_text": text, "raw_words": tuple(spans)} | others
    return TaggedText(
        guid=guid, text=text, words=tuple(spans), tags=tags, **given
    )


def of_text(guid: str, text: str) -> TaggedText:
    """Returns an example whose words are yet to be found."""
    return TaggedText(
        guid=guid,
        text=text,
        words=(),
        raw_text=text,
        raw_words=(),
        has_words=False,
    )


def read_examples(
    path: Source, labels: Sequence[str] = ()
) -> list[tuple[TaggedText, list[Any]]]:
    """Reads the texts of a file, each with the entities that it marks.

    `labels` are the names of tags that are numbers.
    """
    is_json = isinstance(path, RowsInMemory) or str(path).endswith(
        (".jsonl", ".json", ".jsonl.gz", ".json.gz")
    )
    rows = _read_json(path, labels) if is_json else _read_conll(path)
    found = [*rows]
    example_files.check_ids([example.guid for example, _ in found], str(path))
    known = {example.tags is not None for example, _ in found}
    if len(known) > 1:
        raise ValueError(f"{path}: some texts have tags, and others have none.")
    return found


def _read_conll(path: Any) -> Iterator[tuple[TaggedText, list[Any]]]:
    rows: list[list[str]] = []
    num_columns, first, starts_document = 0, 1, False
    lines = enumerate(text_lines.read_lines(path), start=1)
    for line, text in (*lines, (0, "")):
        fields = text.split("\t") if "\t" in text else text.split(" ")
        fields = [field for field in fields if field or "\t" in text]
        if text.startswith(DOCUMENT_START):
            starts_document = True
        elif text.strip():
            num_columns = num_columns or len(fields)
            if len(fields) != num_columns:
                raise ValueError(
                    f"{path}, line {line}: it has {len(fields)} columns, and "
                    f"the first word has {num_columns}. A line must be a word "
                    "and its tag, with a tab or blanks between them."
                )
            first = first if rows else line
            rows.append(fields)
        elif rows:
            words, *_, tags = zip(*rows, strict=True)
            yield (
                of_words(
                    str(first),
                    words,
                    tags if num_columns > 1 else None,
                    starts_document=starts_document,
                ),
                [],
            )
            rows, starts_document = [], False


def _read_json(
    path: Source, labels: Sequence[str]
) -> Iterator[tuple[TaggedText, list[Any]]]:
    for line, row in example_files.read_objects(path):
        where, guid = f"{path}, line {line}", str(row.get("id", line))
        if "tokens" in row:
            words, tags = [*row["tokens"]], row.get("tags")
            if tags is not None:
                tags = tuple(_tag(tag, labels, where) for tag in tags)
            if len(words) != len(words if tags is None else tags) or not all(
                isinstance(word, str) for word in words
            ):
                raise ValueError(
                    f"{where}: `tokens` must be texts, and `tags` as many."
                )
            yield of_words(guid, words, tags), []
        elif isinstance(row.get("text"), str):
            example = of_text(guid, row["text"])
            if "entities" not in row:
                yield example, []
                continue
            try:
                found = [
                    (one["start"], one["end"], one["label"])
                    if isinstance(one, dict)
                    else tuple(one)
                    for one in row["entities"]
                ]
                found = [(int(s), int(e), str(label)) for s, e, label in found]
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(
                    f"{where}: `entities` must be a list of start, end and "
                    f"label. Received: {json.dumps(row['entities'])[:100]}."
                ) from error
            yield dataclasses.replace(example, tags=()), found
        else:
            raise ValueError(
                f"{where} must have `tokens`, or a `text`. Received: "
                f"{checks.listed(map(repr, row))}."
            )


def _tag(tag: Any, labels: Sequence[str], where: str) -> str:
    if isinstance(tag, str) and tag:
        return tag
    if not labels:
        raise ValueError(
            f"{where}: `tags` must be names, or numbers with --labels, their "
            f"names. Received: {tag!r}."
        )
    if not isinstance(tag, int) or not 0 <= tag < len(labels):
        raise ValueError(
            f"{where}: the tag {tag!r} is none of the {len(labels)} --labels, "
            "which are numbered from 0."
        )
    return labels[tag]


def tags_of(
    words: Spans, entities: Sequence[tuple[int, int, str]], lost: list[str]
) -> tuple[str, ...]:
    """Returns the tags, in IOB2, of words with entities in the same text.

    An entity that cuts a word takes the whole word, and of those that overlap,
    the first one is kept; `lost` gets such a one.
    """
    tags = [OUTSIDE] * len(words)
    for start, end, kind in sorted(entities):
        inside = [i for i, (s, e) in enumerate(words) if s < end and start < e]
        free = all(tags[i] == OUTSIDE for i in inside)
        if inside and free:
            tags[inside[0]] = f"B-{kind}"
            for i in inside[1:]:
                tags[i] = f"I-{kind}"
        if (
            not inside
            or not free
            or (words[inside[0]][0] < start or end < words[inside[-1]][1])
        ):
            lost.append(f"{kind} at {start} to {end}")
    return tuple(tags)
