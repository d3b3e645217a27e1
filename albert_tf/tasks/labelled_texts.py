"""Texts with a label, labels or a number, and the tables that hold them.

Data flow: TSV, CSV or JSONL -> [this file] -> examples -> data half.
"""

import collections
import dataclasses
import itertools
import json
import logging
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from albert_tf import checks
from albert_tf.tasks import example_files
from albert_tf.tasks.example_files import Source

_LOGGER = logging.getLogger(__name__)

# With fewer examples, thresholds and scores of a label are unreliable.
LEAST_EXAMPLES = 5
_VERBS = {"train": "train on", "eval": "evaluate"}
# The weights of the classes that make all of them equally heavy.
BALANCED = "balanced"
_MAX_LABELS = 1000
_LARGEST_NUMBER = 3.4e38
# Up to so many different numbers may be ratings or numbered classes.
_FEW_NUMBERS = 20
# Cells of a column that stands for one label.
_MARKS = {"0": False, "1": True, "false": False, "true": True}
# 1,234 may be a large number with a separator, or have a decimal comma.
_UNCLEAR_NUMBER = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ClassificationExample:
    """One text, two or three, and its label, if that is known.

    `guid` is unique in a set. `label` is an index of the task's labels; with
    any number of labels, the tuple of their indices; in a regression, a number.
    """

    guid: str
    text_a: str
    text_b: str = ""
    text_c: str = ""
    label: int | float | tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Columns:
    """Names of the columns to read from a file.

    Without a `label`, no labels are read; without a `guid`, rows are numbered.
    `header` is for a file that has none; `separator` divides the labels of a
    row that may have several. Or each label has a column of 0 and 1: then
    `label` lists these columns, separated by commas.
    """

    texts: tuple[str, ...]
    label: str | None = None
    guid: str | None = None
    header: tuple[str, ...] | None = None
    separator: str = ""

    @property
    def labels(self) -> list[str]:
        """The columns that hold the labels."""
        if self.label is None:
            return []
        return self.label.split(",") if self.separator else [self.label]

    def __post_init__(self) -> None:
        if {*self.labels} & {*self.texts}:
            raise ValueError(
                "`text_columns` must not name the column of the label. "
                f"Received: text_columns={','.join(self.texts)}, "
                f"label_column={self.label}."
            )


class TableStream:
    """The examples of a file without labels, read again by every iteration.

    Ids may repeat. The constructor reads all rows once, to check them.
    """

    def __init__(self, path: Source, columns: Columns) -> None:
        self._path, self._columns = path, columns
        self._num_rows = sum(1 for _ in self)
        if not self._num_rows:
            raise ValueError(f"{self._path} has no examples.")

    def __len__(self) -> int:
        return self._num_rows

    def __iter__(self) -> Iterator[ClassificationExample]:
        return _iterate(self._path, self._columns)


def read_examples(
    path: Source,
    columns: Columns,
    *,
    labels: Sequence[str],
    guid_prefix: str = "",
    skips_broken_rows: bool = False,
) -> list[ClassificationExample]:
    """Reads the examples of one file; ids must differ.

    Args:
        path: See `example_files.read_rows`.
        columns: What to read.
        labels: All labels in the order of the logits; empty for regression.
        guid_prefix: Comes before the number of the line, from 0, in ids of
            rows that have none.
        skips_broken_rows: Whether rows with too few or too many fields are
            skipped, counted and logged; else they are an error.
    """
    broken_rows: list[int] | None = [] if skips_broken_rows else None
    examples = [*_iterate(path, columns, labels, guid_prefix, broken_rows)]
    if broken_rows:
        text = "%s: skipped %d rows with too few or too many fields (lines %s)."
        lines = checks.listed(broken_rows)
        _LOGGER.warning(text, path, len(broken_rows), lines)
    example_files.check_ids([example.guid for example in examples], str(path))
    return examples


def _iterate(
    path: Source,
    columns: Columns,
    labels: Sequence[str] = (),
    guid_prefix: str = "",
    broken_rows: list[int] | None = None,
) -> Iterator[ClassificationExample]:
    names = [*columns.texts, *columns.labels, columns.guid]
    num_texts = len(columns.texts)
    for line, fields in example_files.read_rows(
        path,
        [name for name in names if name is not None],
        header=columns.header,
        broken_rows=broken_rows,
        list_column=columns.label if columns.separator else None,
    ):
        label = None
        if columns.label is not None:
            cells = dict(zip(columns.labels, fields[num_texts:], strict=False))
            where = f"{path}, line {line}"
            label = _parse_label(cells, labels, columns.separator, where)
        yield ClassificationExample(
            guid=fields[-1] if columns.guid else f"{guid_prefix}{line - 1}",
            text_a=fields[0],
            text_b=fields[1] if num_texts > 1 else "",
            text_c=fields[2] if num_texts > 2 else "",
            label=label,
        )


def read_labels(
    path: Source, column: str, *, separator: str = ""
) -> tuple[str, ...]:
    """Returns the different labels of a training file, sorted.

    Of labels that are equal numbers, `1` and `1.0`, only the shortest is
    returned. Columns that stand for one label each are the labels.
    """
    if separator and "," in column:
        names = column.split(",")
        check_labels(names, "--label_column")
        return tuple(names)
    labels: set[str] = set()
    for line, (text,) in example_files.read_rows(
        path, [column], list_column=column if separator else None
    ):
        where = f"{path}, line {line}"
        row = split_labels(text, separator, where) if separator else [text]
        if separator and text.lstrip().startswith("["):
            row += _mark_names(_parse_list(text))  # Some may have no example.
        for label in row:
            if label not in labels:
                _check_label(label, where)
                labels.add(label)
    if not labels:
        raise ValueError(f"{path} has no examples with a label.")
    by_class = {_class(x): x for x in sorted(labels, key=len, reverse=True)}
    names, where = sorted(by_class.values()), f"{path}, column {column!r}"
    check_labels(names, where)
    is_long = len(names) > _FEW_NUMBERS or "." in "".join(by_class)
    if is_long and not any(math.isnan(_number(label)) for label in names):
        text = "%s: %d numbers are classes. To predict one, pass --regression."
        _LOGGER.warning(text, where, len(names))
    return tuple(names)


def _class(label: str) -> str:
    """Returns the shortest label of the same class: `1.0` is `1`."""
    whole = re.sub(r"^(-?\d+)\.0+$", r"\1", label)
    return "0" if whole == "-0" else whole


def _labels_with_one(cells: Mapping[str, str], where: str) -> list[str]:
    """Returns the labels whose columns hold 1."""
    marks = {n: _MARKS.get(_class(c.strip()).lower()) for n, c in cells.items()}
    if None in marks.values():
        raise ValueError(
            f"{where}: columns that are a label each must hold 0 or 1. "
            f"Received: {', '.join(f'{n}={c}' for n, c in cells.items())}."
        )
    return [name for name, mark in marks.items() if mark]


def split_labels(
    text: str, separator: str, where: str, labels: Sequence[str] = ()
) -> list[str]:
    """Returns the labels of a row, divided by `separator` or listed in JSON.

    >>> split_labels("news, sport", ",", "line 1")
    ['news', 'sport']
    >>> split_labels('["news, local", "sport"]', ";", "line 1")
    ['news, local', 'sport']

    A list may also be written as Python writes it; its labels may be numbers.
    A list of more than two zeros and ones marks each of `labels`, or numbers
    from 0, in their order:

    >>> split_labels("[0, 1, 1]", ",", "line 1", ["news", "local", "sport"])
    ['local', 'sport']
    """
    if not text.lstrip().startswith("["):
        parts = (part.strip() for part in text.split(separator))
        return [part for part in parts if part]
    row = _parse_list(text)
    if names := _mark_names(row):
        if labels and {*labels} != {*names}:
            names = [*labels]
        if len(names) == len(row):
            return [name for name, mark in zip(names, row, strict=True) if mark]
    numbers = [label for label in row if isinstance(label, int | float)]
    strings = [label for label in row if isinstance(label, str)]
    if len({*numbers}) + len(strings) < len(row):
        raise ValueError(
            f"{where}: labels that begin with a bracket must be a list of "
            "strings, or of different numbers, in JSON, or a 0 or 1 for every "
            f"label, if there are more than two. Received: {text!r}."
        )
    return [x if isinstance(x, str) else json.dumps(x) for x in row]


def _parse_list(text: str) -> list[object]:
    """Parses a list, written as in JSON or Python; [None] for other text."""
    quoted = text if '"' in text else text.replace("'", '"')
    try:
        row: list[object] = json.loads(quoted)
        return row
    except (json.JSONDecodeError, RecursionError):
        return [None]


def _mark_names(row: Sequence[object]) -> list[str]:
    """Returns `0`, `1`, ... if a list marks every label by 0 or 1; else [].

    It must have more than two marks: `[0, 1]` may list the labels 0 and 1.
    """
    are_marks = all(isinstance(x, int | float) and x in (0, 1) for x in row)
    return [*map(str, range(len(row)))] if are_marks and len(row) > 2 else []


def check_labels(labels: Sequence[str], where: str) -> None:
    """Checks the labels of a task, and warns of labels that look alike."""
    for label in labels:
        _check_label(label, where)
    num_classes = len({*map(_class, labels)})
    if num_classes < len(labels) or not 1 < len(labels) <= _MAX_LABELS:
        raise ValueError(
            f"{where}: there must be 2 to {_MAX_LABELS} different labels. "
            f"Received: {len(labels)} ({checks.listed(map(repr, labels))}). "
            "Name the column of the labels, or pass --regression if they are "
            "numbers."
        )
    alike = collections.defaultdict(list)
    for label in labels:
        alike[" ".join(label.split()).casefold()].append(repr(label))
    for group in alike.values():
        if len(group) > 1:
            text = "%s: the classes %s differ only in case or white space."
            _LOGGER.warning(text, where, ", ".join(group))


def _check_label(label: str, where: str) -> None:
    is_missing = label.strip().lower() in ("", "nan")
    if is_missing or {*label} & {*"\t\r\n"}:
        raise ValueError(
            f"{where}: a label must not be empty or NaN, nor have tabs or line "
            f"breaks. Received: {label!r}."
        )


def _parse_label(
    cells: Mapping[str, str], labels: Sequence[str], separator: str, where: str
) -> int | float | tuple[int, ...]:
    """Returns a `ClassificationExample.label`, from cells by column."""
    text, *others = cells.values()
    if separator:
        if others:
            row = _labels_with_one(cells, where)
        else:
            row = split_labels(text, separator, where, labels)
        return tuple(sorted({_index(label, labels, where) for label in row}))
    if labels:
        return _index(text, labels, where)
    target = _number(text)
    if not abs(target) <= _LARGEST_NUMBER:
        raise ValueError(
            f"{where}: the label of a regression must be a number of float32, "
            f"written with a decimal point. Received: {text!r}."
        )
    return target


def _number(text: str) -> float:
    """Returns a number with a decimal point or comma; NaN for another text."""
    if not _UNCLEAR_NUMBER.fullmatch(text):
        text = text.replace(",", ".")
    try:
        # Python reads 1_000 as a number.
        return float(text.replace("_", "?"))
    except ValueError:
        return math.nan


def _index(label: str, labels: Sequence[str], where: str) -> int:
    if label in labels:
        return labels.index(label)
    classes = [*map(_class, labels)]
    if _class(label) in classes:
        return classes.index(_class(label))
    raise ValueError(
        f"{where}: the label must be one of "
        f"{checks.listed(map(repr, labels))}. Received: {label!r}."
    )


def check_rows(
    use: str, rows: Sequence[ClassificationExample], labels: Sequence[str]
) -> None:
    """Refuses rows with all labels; warns of rare labels, and of texts."""
    each = (r.label if isinstance(r.label, tuple) else [r.label] for r in rows)
    counts = collections.Counter(itertools.chain(*each))
    rare = [
        f"{label!r} ({counts[i]})"
        for i, label in enumerate(labels)
        if counts[i] < LEAST_EXAMPLES
    ]
    if rare:
        _LOGGER.warning(
            "Of the %d rows to %s, too few to rely on have the label %s. Check "
            "the spelling, or pass more rows.",
            len(rows),
            _VERBS[use],
            checks.listed(rare),
        )
    label_counts = {counts[i] for i in range(len(labels))}
    if use == "train" and label_counts == {len(rows)}:
        raise ValueError(
            f"All {len(rows)} rows to train on have all {len(labels)} labels. "
            "A 0 or 1 for every label needs a column for each."
        )
    if not labels and len(counts) == 1:
        text = "All %d rows to %s have the same number, %s."
        _LOGGER.warning(text, len(rows), _VERBS[use], *counts)
    check_texts(use, rows)


def check_texts(use: str, rows: Sequence[ClassificationExample]) -> None:
    """Warns of missing texts, and of rows that all have the same texts."""
    num_texts = 2 if any(row.text_b for row in rows) else 1
    texts = [(row.text_a, row.text_b)[:num_texts] for row in rows]
    lacks = [any(t.strip() in ("", "nan") for t in each) for each in texts]
    if any(lacks):
        text = "%d of the %d rows to %s have no text."
        if num_texts == 2:
            text = "%d of the %d rows to %s lack one of their texts."
        _LOGGER.warning(text, sum(lacks), len(rows), _VERBS[use])
    if len(rows) > 1 and len({*texts}) == 1:
        text = "All %d rows to %s have the same text."
        _LOGGER.warning(text, len(rows), _VERBS[use])
