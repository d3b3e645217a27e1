"""Examples of classification and regression, and the tables that hold them.

Data flow: TSV, CSV or JSONL -> [this file] -> examples -> `ClassificationData`.
"""

import dataclasses
import json
import logging
import math
import os
from collections.abc import Iterable, Iterator, Sequence

from albert_tf import files
from albert_tf.tasks import table_files

_logger = logging.getLogger(__name__)

_MAX_LABELS = 1000
_ENDINGS = tuple(
    f"{name}{gz}"
    for gz in ("", ".gz")
    for name in (".tsv", ".csv", ".jsonl", ".json")
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ClassificationExample:
    """One text, or two, and its label.

    Args:
        guid: Unique in a set.
        text_a: The text, or the first of two.
        text_b: Empty if there is no second text.
        label: Index of the label among the task's labels; the number, for
            regression; the indices, increasing, for several labels a row;
            None if it is not known.
    """

    guid: str
    text_a: str
    text_b: str = ""
    label: int | float | tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of a file hold what.

    Args:
        texts: One column or two.
        label: Column of the label; None to read no labels.
        guid: Column of the row's id; None to number the rows.
        header: Names of all columns, for files without a header row.
        separator: What separates the labels of a row that has several; None
            if each has one.

    Raises:
        ValueError: There is no text column, or there are more than two; or a
            column is named twice.
    """

    texts: tuple[str, ...]
    label: str | None = None
    guid: str | None = None
    header: tuple[str, ...] | None = None
    separator: str | None = None

    def __post_init__(self) -> None:
        if len(self.texts) not in (1, 2) or not all(self.texts):
            raise ValueError(
                "`text_columns` must name one column or two, because a "
                "sequence has two segments. Received: "
                f"text_columns={','.join(self.texts)!r}."
            )
        if len({*self.texts, self.label}) <= len(self.texts):
            raise ValueError(
                "The text columns and the label column must be different "
                "columns. Received: "
                f"text_columns={','.join(self.texts)!r}, "
                f"label_column={self.label!r}."
            )


def find_split(data_dir: files.Path, split: str) -> str:
    """Returns the file of a split in a folder: `train.tsv`, `dev.jsonl`, ...

    Raises:
        FileNotFoundError: There is none.
        ValueError: There are several.
    """
    folder = files.check_local(data_dir)
    candidates = [
        os.path.join(folder, f"{split}{ending}") for ending in _ENDINGS
    ]
    found = [path for path in candidates if os.path.isfile(path)]
    if not found:
        raise FileNotFoundError(
            f"There is no {split}.tsv, {split}.csv or {split}.jsonl in "
            f"{folder!r}. Check the folder, or name the file itself."
        )
    if len(found) > 1:
        raise ValueError(
            f"There are several files for {split}: {', '.join(found)}. Name "
            "the one to read."
        )
    return found[0]


def read_examples(
    path: files.Path,
    columns: Columns,
    *,
    labels: Sequence[str],
    guid_prefix: str = "",
    skips_broken_rows: bool = False,
) -> list[ClassificationExample]:
    """Reads the examples of one file.

    Empty texts are not an error: published sets have some, and predictions
    need every row. How many there are is logged.

    Args:
        path: TSV, or CSV or JSONL by its ending.
        columns: What to read.
        labels: All labels in the order of the logits; empty for regression.
        guid_prefix: Start of the ids of rows that have none; the number of
            the line, from 0, follows.
        skips_broken_rows: Whether rows with too few or too many fields are
            skipped, counted and logged; else they are an error.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file has no rows, a column is missing, a row is
            broken, a label is unknown, or two rows have the same id. The
            message names file and line.
    """
    path = os.fspath(path)
    broken: list[int] | None = [] if skips_broken_rows else None
    # By line number.
    examples = dict(
        iterate_examples(
            path,
            columns,
            labels=labels,
            guid_prefix=guid_prefix,
            broken_rows=broken,
        )
    )
    if broken:
        _logger.warning(
            "%s: skipped %d rows with too few or too many fields, as the "
            "original does (lines %s).",
            path,
            len(broken),
            table_files.shown_few(map(str, broken)),
        )
    _check_ids(examples, path)
    warn_of_empty_texts(examples.items(), path)
    return list(examples.values())


def iterate_examples(
    path: str,
    columns: Columns,
    *,
    labels: Sequence[str],
    guid_prefix: str = "",
    broken_rows: list[int] | None = None,
) -> Iterator[tuple[int, ClassificationExample]]:
    """Yields line numbers and examples; see `read_examples`.

    One row is in memory at a time, so ids are not compared. `broken_rows`
    is that of `table_files.read_rows`.
    """
    names = [*columns.texts, columns.label, columns.guid]
    num_texts = len(columns.texts)
    for number, fields in table_files.read_rows(
        path,
        [name for name in names if name is not None],
        header=columns.header,
        broken_rows=broken_rows,
        list_column=columns.label if columns.separator else None,
    ):
        label = None
        if columns.label is not None:
            where = f"{path}, line {number}"
            label = _parse_label(
                fields[num_texts], labels, columns.separator, where
            )
        guid = fields[-1] if columns.guid else f"{guid_prefix}{number - 1}"
        if columns.guid:
            _check_fits_a_row(guid, f"{path}, line {number}: the id")
        yield (
            number,
            ClassificationExample(
                guid=guid,
                text_a=fields[0],
                text_b=fields[1] if num_texts > 1 else "",
                label=label,
            ),
        )


def read_labels(
    path: files.Path, column: str, *, separator: str | None = None
) -> tuple[str, ...]:
    """Returns the different labels of a training file, sorted.

    `separator` is that of `Columns`.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: It has no rows, or a row or a label is wrong; see
            `table_files.read_rows` and `check_labels`.
    """
    path = os.fspath(path)
    # By label, the first line that has it.
    found: dict[str, int] = {}
    number = 0
    for number, (text,) in table_files.read_rows(
        path, [column], list_column=column if separator else None
    ):
        where = f"{path}, line {number}"
        own = split_labels(text, separator, where) if separator else [text]
        for label in own:
            if found.setdefault(label, number) == number:
                _check_label(label, where)
    if not number:
        raise no_rows(path)
    labels = sorted(found)
    check_labels(labels, f"{path}, column {column!r}")
    return tuple(labels)


def split_labels(text: str, separator: str, where: str) -> list[str]:
    """Returns the labels of a row that may have several, or none.

    >>> split_labels("news, sport", ",", "line 1")
    ['news', 'sport']
    >>> split_labels('["news, local", "sport"]', ",", "line 1")
    ['news, local', 'sport']

    Args:
        text: Labels with `separator` between them, or a list in JSON.
        separator: White space beside it is no part of a label.
        where: Begins the message of an error.

    Raises:
        ValueError: The text begins like a list in JSON, but is none.
    """
    if not text.lstrip().startswith("["):
        parts = (part.strip() for part in text.split(separator))
        return [part for part in parts if part]
    try:
        labels = json.loads(text)
    except json.JSONDecodeError:
        labels = [None]
    if not all(isinstance(label, str) for label in labels):
        raise ValueError(
            f"{where}: labels that begin with a bracket must be a list of "
            f"strings in JSON. Received: {text!r}."
        )
    return list(labels)


def check_labels(labels: Sequence[str], where: str) -> None:
    """Checks that labels can be told apart, by a classifier and in a file.

    Labels that differ only in their writing are warned of.

    Raises:
        ValueError: A label is empty, breaks a row, or comes twice; or there
            are fewer than two labels, or more than a thousand. The message
            begins with `where`.
    """
    for label in labels:
        _check_label(label, where)
    if len(set(labels)) < len(labels):
        raise ValueError(
            f"{where} names a label twice: {', '.join(map(repr, labels))}. "
            "Name each once."
        )
    if not 1 < len(labels) <= _MAX_LABELS:
        shown = table_files.shown_few(map(repr, labels))
        raise ValueError(
            f"{where}: there must be 2 to {_MAX_LABELS} different labels. "
            f"Received: {len(labels)} ({shown}). Name the column of the "
            "labels, or pass --regression if they are numbers."
        )
    alike: dict[str | float, list[str]] = {}
    for label in labels:
        alike.setdefault(_look(label), []).append(label)
    for group in alike.values():
        if len(group) > 1:
            _logger.warning(
                "%s: the labels %s differ only in case, white space or the "
                "way a number is written, and are different classes. If they "
                "should be one, correct the rows.",
                where,
                ", ".join(map(repr, group)),
            )


def _look(label: str) -> str | float:
    """Returns what is the same for labels that look alike."""
    try:
        return float(label)
    except ValueError:
        return " ".join(label.split()).casefold()


def _parse_label(
    text: str, labels: Sequence[str], separator: str | None, where: str
) -> int | float | tuple[int, ...]:
    """Returns what `ClassificationExample.label` holds."""
    if separator:
        own = split_labels(text, separator, where)
        return tuple(sorted({_place(label, labels, where) for label in own}))
    if labels:
        return _place(text, labels, where)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(
            f"{where}: the label must be a number, because the task is a "
            f"regression. Received: {text!r}. Fix the row."
        )
    return number


def _place(label: str, labels: Sequence[str], where: str) -> int:
    if label in labels:
        return labels.index(label)
    raise ValueError(
        f"{where}: the label must be one of "
        f"{table_files.shown_few(map(repr, labels))}. Received: "
        f"{label!r}. Fix the row; or, if the label is new, train on rows "
        "that have it."
    )


def _check_label(label: str, where: str) -> None:
    if not label.strip():
        raise ValueError(f"{where}: the label is empty. Give each row one.")
    _check_fits_a_row(label, f"{where}: the label")


def _check_ids(examples: dict[int, ClassificationExample], path: str) -> None:
    if not examples:
        raise no_rows(path)
    first_lines: dict[str, int] = {}
    for number, example in examples.items():
        first = first_lines.setdefault(example.guid, number)
        if first != number:
            raise ValueError(
                f"{path}, line {number}: line {first} has the same id, "
                f"{example.guid!r}. Give every row an id of its own."
            )


def _check_fits_a_row(text: str, what: str) -> None:
    if any(character in text for character in "\t\r\n"):
        raise ValueError(
            f"{what} {text!r} has a tab or a line break, so it cannot be "
            "written into a row of predictions. Replace it."
        )


def no_rows(path: str) -> ValueError:
    """Returns the error of a file without rows."""
    return ValueError(f"{path} has no rows. Pass a file with examples.")


def warn_of_empty_texts(
    rows: Iterable[tuple[int, ClassificationExample]], path: str
) -> int:
    """Returns the number of rows; logs how many have an empty text.

    An empty second text counts if any row has a second text.
    """
    num_rows, is_pair = 0, False
    empty_first, empty_any = _Lines(), _Lines()
    for number, example in rows:
        num_rows += 1
        is_pair = is_pair or bool(example.text_b)
        if not example.text_a.strip():
            empty_first.add(number)
        if not (example.text_a.strip() and example.text_b.strip()):
            empty_any.add(number)
    empty = empty_any if is_pair else empty_first
    if empty.number:
        _logger.warning(
            "%s: %d of %d rows have an empty text (lines %s); they are kept.",
            path,
            empty.number,
            num_rows,
            table_files.shown_few(empty.first),
        )
    return num_rows


class _Lines:
    """Counts lines, and keeps the numbers of the first ones."""

    def __init__(self) -> None:
        self.number = 0
        self.first: list[str] = []

    def add(self, line: int) -> None:
        self.number += 1
        if len(self.first) <= table_files.NUM_SHOWN:
            self.first.append(str(line))
