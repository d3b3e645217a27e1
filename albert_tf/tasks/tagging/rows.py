"""Files of tagged texts: columns, and the lines of annotation tools.

Data flow: file -> [this file] -> rows with the names of this library -> words.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from albert_tf import checks, files
from albert_tf.metrics.entities import OUTSIDE
from albert_tf.tasks import example_files
from albert_tf.tasks.example_files import RowsInMemory, Source
from albert_tf.text import text_lines

# What holds the tags of `tokens`, and the entities of a `text`: here, in
# doccano (`label`, `entities`), spaCy (`spans`, `ents`), transformers.
_ANSWERS = {
    "tokens": ("tags", "ner_tags", "labels"),
    "text": ("entities", "spans", "ents", "label", "labels"),
}
# Of an entity: its start, its end, its kind. Label Studio has a list of kinds.
_PARTS = ("start", "start_offset"), ("end", "end_offset"), ("label", "labels")
# The first column of a table may count words or texts. In CoNLL-U, `1-2` are
# words that are written as one, and `1.1` is a word that is not written.
_COUNT = re.compile(r"(\d+([-.]\d+)?)?")
_DOCUMENT = "-DOCSTART-"
# Files of columns, whatever their lines look like.
_COLUMN_ENDINGS = (".conll", ".conllu")
# The line number, from 1, and `tokens` and `tags`, or `text` and `entities`.
Row: TypeAlias = tuple[int, files.JsonObject]
# Start and end, kind, and whether another place than the file's has its text.
Entity: TypeAlias = tuple[int, int, str, bool]


class Columns(NamedTuple):
    """The columns of words and of tags, from 1; by default first and last.

    `known_tags` are those of a model: a file to predict may be raw text.
    """

    word: int | None = None
    tag: int | None = None
    known_tags: Collection[str] | None = None


def read_rows(path: Source, columns: Columns) -> Iterator[Row]:
    """Yields the texts of a file, with their tags, None if not known."""
    if not example_files.has_objects(path):
        yield from _read_columns(path, columns)
        return
    if not isinstance(path, RowsInMemory):
        # Label Studio writes one list.
        first = next(filter(str.strip, text_lines.read_lines(path)), "")
        if first.lstrip().startswith("["):
            path = example_files.rows_in_memory(
                str(path), files.read_json(path)
            )
    for line, row in example_files.read_objects(path):
        try:
            yield line, _with_our_names(row)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise fault(path, line, error) from error


def fault(path: Source, line: int, error: Exception) -> ValueError:
    """Returns the error of a text that begins at a line."""
    wanted = "Each line must be a word, a tab or blank, and its tag"
    if example_files.has_objects(path):
        wanted = (
            "It must have `tokens` and `tags`, or `text` and `entities` "
            "(start, end, label)"
        )
    return ValueError(
        f"{path}, line {line}: {type(error).__name__}: {error}. {wanted}."
    )


def _read_columns(path: Any, columns: Columns) -> Iterator[Row]:
    lines = [*text_lines.read_lines(path)]
    if _is_raw_text(path, lines, columns):
        yield from (
            (n, {"text": x}) for n, x in enumerate(lines, 1) if x.strip()
        )
        return
    texts = [*_texts_of_columns(path, lines)]
    rows = [fields for text in texts for _, fields in text] or [[""]]
    word, tag = columns.word or 1, columns.tag or len(rows[0])
    if max(word, tag) > len(rows[0]):
        raise ValueError(f"{path} has no column {max(word, tag)}.")
    counts = len(rows[0]) > 1 and all(_COUNT.fullmatch(row[0]) for row in rows)
    if counts and not columns.word:
        raise ValueError(
            f"{path}: the first column has only numbers, which count. Name the "
            "column of the words, from 1, such as --word_column=2; and "
            "--tag_column, unless it is the last."
        )
    if counts and word > 1:
        texts = [
            [x for x in t if not re.search("[-.]", x[1][0])] for t in texts
        ]
    for text in filter(None, texts):
        tags = [fields[tag - 1] for _, fields in text]
        if "" in tags and word != tag:
            line = text[tags.index("")][0]
            raise ValueError(f"{path}, line {line}: a tag is empty.")
        words = [fields[word - 1] for _, fields in text]
        row = {"tokens": words, "tags": None if word == tag else tags}
        yield text[0][0], row


def _no_comments(lines: Sequence[str]) -> list[str]:
    """Returns the lines that are not empty nor marked, unless all are."""
    lines = [*filter(str.strip, lines)]
    marks = "#", _DOCUMENT
    return [line for line in lines if not line.startswith(marks)] or lines


def _is_raw_text(path: Any, lines: Sequence[str], columns: Columns) -> bool:
    """Returns whether a file to predict is not in columns.

    These have tabs, no blanks, or tags of the model at the ends of all lines.
    """
    name = text_lines.uncompressed_name(path)
    is_named = columns.word or columns.tag or name.endswith(_COLUMN_ENDINGS)
    if columns.known_tags is None or is_named:
        return False
    lines = _no_comments(lines)
    parts = [line.strip(" ").split(" ") for line in lines]
    has_tags = {one[-1] for one in parts} <= {OUTSIDE, *columns.known_tags}
    are_words = all(len(one) == 1 for one in parts)
    return not (has_tags or are_words or all("\t" in line for line in lines))


def _texts_of_columns(
    path: Any, lines: Sequence[str]
) -> Iterator[list[tuple[int, list[str]]]]:
    """Yields the line numbers and fields of the words of each text.

    A comment begins with `#` before a text, and has other columns.
    """
    first = [*_no_comments(lines), ""][0]
    num_columns = len(_fields(first, first))
    rows: list[tuple[int, list[str]]] = []
    for line, text in enumerate((*lines, ""), start=1):
        if text.strip() and not text.startswith(_DOCUMENT):
            fields = _fields(text, first)
            if len(fields) == num_columns:
                rows.append((line, fields))
            elif rows or not text.startswith("#"):
                raise ValueError(
                    f"{path}, line {line} has {len(fields)} columns, the first "
                    f"line {num_columns}. Each must be a word, a tab or blank, "
                    "and its tag."
                )
        elif rows:
            yield rows
            rows = []


def _fields(text: str, first: str) -> list[str]:
    if "\t" in text + first:
        return [field.strip(" ") for field in text.split("\t")]
    return re.split(" +", text.strip(" "))


def _with_our_names(row: files.JsonObject) -> files.JsonObject:
    if "annotations" in row:
        row = _of_label_studio(row)
    if row.get("answer", "accept") != "accept":
        raise ValueError(
            f"Prodigy's answer is {row['answer']!r}: leave such rows out"
        )
    tokens: Any = row.get("tokens", row.get("words", ()))
    # In spaCy and Prodigy, tokens are places in the text.
    has_words = any(isinstance(token, str) for token in tokens)
    is_text = "text" in row and not has_words
    content = "text" if is_text else "tokens"
    names = [n for n in _ANSWERS[content] if _is_list(row.get(n))]
    if len(names) > 1:
        raise ValueError(f"{' and '.join(names)} may be the tags: keep one")
    answer = [*row[names[0]]] if names else None
    own = {name: row[name] for name in ("id",) if row.get(name) is not None}
    if isinstance(tokens, str):
        raise TypeError("a text is no list")
    if not is_text:
        if not {"tokens", "words"} & {*row}:
            raise KeyError(f"it has only {checks.listed(row)}")
        return {"tokens": [*map(text_of, tokens)], "tags": answer, **own}
    text = text_of(row["text"])
    entities = None if answer is None else [_entity(x, text) for x in answer]
    return {"text": text, "entities": entities, **own}


def _is_list(value: object) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str)


def _of_label_studio(row: files.JsonObject) -> files.JsonObject:
    given = [a for a in row["annotations"] if not a.get("was_cancelled")]
    if len(given) > 1:
        raise ValueError("it has several annotations: keep one")
    results = [one.get("value", {}) for a in given for one in a["result"]]
    entities = [value for value in results if "labels" in value]
    return {**row, **row["data"], "entities": entities if given else None}


def _entity(entity: Any, text: str) -> Entity:
    stated = ""
    if isinstance(entity, dict):
        stated = text_of(entity.get("text", ""))
        found = [[n for n in names if n in entity] for names in _PARTS]
        if not all(found):
            raise KeyError(f"an entity has only {checks.listed(entity)}")
        entity = [entity[names[0]] for names in found]
    *given, kind = entity
    start, end = map(int, given)
    if stated.strip() and text[start:end] != stated:
        place = example_files.find_text(stated, text, start)
        if place is None:
            raise ValueError(f"the text has no {stated!r}, an entity")
        start, end = place
    if not 0 <= start <= end <= len(text):
        raise ValueError(f"{start}:{end} is no part of the text")
    if isinstance(kind, list):
        [kind] = kind
    if not kind:
        raise ValueError("an entity has no label")
    return start, end, text_of(kind), [start, end] != given


def text_of(value: object) -> str:
    """Returns a text; raises TypeError if it is none."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
