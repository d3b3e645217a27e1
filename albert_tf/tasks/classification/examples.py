"""An example of classification or regression, and checks of a set of them.

Data flow: rows of a file -> [this file] -> `ClassificationData`.
Floor: tasks. Plain Python.

Files of classification and regression: rows to examples.

Data flow: TSV or JSONL -> [this file] -> examples -> `ClassificationData`.
Floor: tasks. Plain Python.
"""

import dataclasses
import logging
import math
import os
from collections.abc import Iterable, Sequence

from albert_tf import files
from albert_tf.tasks import table_files

logger = logging.getLogger(__name__)

_NUM_SHOWN = 5


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ClassificationExample:
    """One text, or two, and what is to be said of them.

    Args:
        guid: A name that no other example of the set has.
        text_a: The text, or the first of two.
        text_b: The second text; empty for none.
        label: Place of the label among the task's labels; the number, for
            regression; None if it is not known.
    """

    guid: str
    text_a: str
    text_b: str = ""
    label: int | float | None = None


def parse_label(text: str, labels: Sequence[str], where: str) -> int | float:
    """Returns the place of a label among `labels`, or the number that it is.

    Args:
        text: The label as a file has it.
        labels: All labels; empty for regression.
        where: File and line, for the error.

    Raises:
        ValueError: The label is none of `labels`; or no finite number.
    """
    if not labels:
        return _parse_number(text, where)
    if text in labels:
        return labels.index(text)
    shown = shown_few(map(repr, labels))
    raise ValueError(
        f"{where}: the label is {text!r}, wanted one of {shown}. Mend the "
        "row; or, if the label is a new one, train on rows that have it."
    )


def _parse_number(text: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(
            f"{where}: the label is {text!r}, wanted a number, because the "
            "task is a regression. Mend the row."
        )
    return number


def check_fits_a_row(text: str, where: str) -> None:
    """Refuses an id or a label that would break a row of a TSV file.

    Raises:
        ValueError: It has a tab or a line break.
    """
    if any(character in text for character in "\t\r\n"):
        raise ValueError(
            f"{where} {text!r} has a tab or a line break, so it cannot stand "
            "in a row of predictions. Replace it."
        )


def check_examples(
    examples: Sequence[ClassificationExample],
    line_numbers: Sequence[int],
    path: str,
) -> None:
    """Refuses a set that is empty or names two rows alike; tells of gaps.

    An empty text is no error: the original's sets have some, and what is
    predicted must not lose a row. How many there are is logged.

    Args:
        examples: All examples of a file.
        line_numbers: The line that each stands in.
        path: The file, for messages.

    Raises:
        ValueError: There is no example; or two have the same `guid`, or one
            has a `guid` that would break a row of predictions.
    """
    if not examples:
        raise ValueError(f"{path} has no rows. Pass a file with examples.")
    first_lines: dict[str, int] = {}
    for example, number in zip(examples, line_numbers, strict=True):
        check_fits_a_row(example.guid, f"{path}, line {number}: the id")
        first = first_lines.setdefault(example.guid, number)
        if first != number:
            raise ValueError(
                f"{path}, line {number}: the id {example.guid!r} stands in "
                f"line {first} as well. Give every row an id of its own."
            )
    is_pair = any(example.text_b for example in examples)
    empty = [
        number
        for example, number in zip(examples, line_numbers, strict=True)
        if not example.text_a.strip()
        or (is_pair and not example.text_b.strip())
    ]
    if empty:
        logger.warning(
            "%s: %d of %d rows have an empty text (lines %s); they are kept.",
            path,
            len(empty),
            len(examples),
            shown_few(map(str, empty)),
        )


def shown_few(items: Iterable[str]) -> str:
    """Returns the first few items as one text.

    >>> shown_few("abcdefg")
    'a, b, c, d, e, ...'
    """
    items = list(items)
    shown = ", ".join(items[:_NUM_SHOWN])
    return f"{shown}, ..." if len(items) > _NUM_SHOWN else shown


_MAX_LABELS = 1000
_ENDINGS = (".tsv", ".jsonl", ".json", ".tsv.gz", ".jsonl.gz", ".json.gz")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of a file hold what.

    Args:
        texts: One column, or two.
        label: Column of the label; None to read none.
        guid: Column of the row's id; None to number the rows.
        header: Names of all columns, for TSV files that do not name them in
            their first row.

    Raises:
        ValueError: There is no text column, or there are more than two; or a
            column is named twice.
    """

    texts: tuple[str, ...]
    label: str | None = None
    guid: str | None = None
    header: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.texts) not in (1, 2) or not all(self.texts):
            raise ValueError(
                "`text_columns` must name one column or two, because a "
                "sequence has two segments. Received: "
                f"text_columns={','.join(self.texts)!r}."
            )
        if len({*self.texts, self.label}) <= len(self.texts):
            raise ValueError(
                "The text columns and the label column must differ, because "
                "each is for something else. Received: "
                f"text_columns={','.join(self.texts)!r}, "
                f"label_column={self.label!r}."
            )


def read_examples(
    path: files.Path,
    columns: Columns,
    *,
    labels: Sequence[str],
    guid_prefix: str = "",
    skips_broken_rows: bool = False,
) -> list[ClassificationExample]:
    """Reads the examples of one file.

    Args:
        path: TSV, or JSONL by its ending.
        columns: Which columns hold what.
        labels: All labels in the order of the logits; empty for regression.
        guid_prefix: Begins the ids of rows that have none; the number of the
            line, from 0, ends them.
        skips_broken_rows: Whether TSV rows with too few or too many fields
            are left out, counted and logged; else they are an error.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A column is missing, a row is broken, a label is not among
            `labels` or no number, there is no row, or two have the same id.
            The message names file and line.
    """
    path = os.fspath(path)
    names = [*columns.texts, columns.label, columns.guid]
    broken: list[int] | None = [] if skips_broken_rows else None
    examples, numbers = [], []
    for number, fields in table_files.read_rows(
        path,
        [name for name in names if name is not None],
        header=columns.header,
        broken_rows=broken,
    ):
        num_texts = len(columns.texts)
        label = None
        if columns.label is not None:
            label = parse_label(
                fields[num_texts], labels, f"{path}, line {number}"
            )
        example = ClassificationExample(
            guid=fields[-1] if columns.guid else f"{guid_prefix}{number - 1}",
            text_a=fields[0],
            text_b=fields[1] if num_texts > 1 else "",
            label=label,
        )
        examples.append(example)
        numbers.append(number)
    _tell_of_broken_rows(broken, path)
    check_examples(examples, numbers, path)
    return examples


def read_labels(path: files.Path, column: str) -> tuple[str, ...]:
    """Returns the labels that a file to train on has, sorted.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: As `table_files.read_rows` and `check_labels`; or there is
            no row.
    """
    path = os.fspath(path)
    # By label, the first line that has it.
    found: dict[str, int] = {}
    for number, (label,) in table_files.read_rows(path, [column]):
        if found.setdefault(label, number) == number:
            _check_label(label, f"{path}, line {number}")
    if not found:
        raise ValueError(f"{path} has no rows. Pass a file with examples.")
    labels = sorted(found)
    check_labels(labels, f"{path}, column {column!r}")
    return tuple(labels)


def check_labels(labels: Sequence[str], where: str) -> None:
    """Refuses labels that cannot be told apart by a classifier.

    Args:
        labels: All labels.
        where: What names them, for the error.

    Raises:
        ValueError: One is empty, would break a line, or comes twice; or there
            are fewer than two labels, or more than a thousand.
    """
    for label in labels:
        _check_label(label, where)
    if len(set(labels)) < len(labels):
        raise ValueError(
            f"{where} names a label twice: {', '.join(map(repr, labels))}. "
            "Name each once."
        )
    if not 1 < len(labels) <= _MAX_LABELS:
        shown = shown_few(map(repr, labels))
        raise ValueError(
            f"{where}: there are {len(labels)} different labels ({shown}), "
            f"wanted 2 to {_MAX_LABELS}. Name the column of the labels, or ask "
            "for a regression if they are numbers."
        )


def _check_label(label: str, where: str) -> None:
    if not label.strip():
        raise ValueError(f"{where}: the label is empty. Give each row one.")
    check_fits_a_row(label, f"{where}: the label")


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
            f"There is no {split}.tsv or {split}.jsonl in {folder!r}. Check "
            "the folder, or name the file itself."
        )
    if len(found) > 1:
        raise ValueError(
            f"There are several files for {split}: {', '.join(found)}. Name "
            "the one to read."
        )
    return found[0]


def _tell_of_broken_rows(broken: Sequence[int] | None, path: str) -> None:
    if broken:
        logger.warning(
            "%s: %d rows have too few or too many fields and are left out, as "
            "in the original (lines %s).",
            path,
            len(broken),
            shown_few(map(str, broken)),
        )
