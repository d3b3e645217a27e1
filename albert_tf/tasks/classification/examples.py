"""Examples of classification and regression, and the tables that hold them.

Data flow: TSV, CSV or JSONL -> [this file] -> examples -> `ClassificationData`.
"""

import collections
import dataclasses
import json
import logging
import math
import os
from collections.abc import Iterator, Sequence

from albert_tf import checks, files
from albert_tf.tasks import example_files
from albert_tf.tasks.example_files import Source

_LOGGER = logging.getLogger(__name__)

# The weights of the classes that make all of them equally heavy.
BALANCED = "balanced"
_MAX_LABELS = 1000
_LARGEST_NUMBER = 3.4e38
_ENDINGS = tuple(
    f"{name}{gz}"
    for gz in ("", ".gz")
    for name in (".tsv", ".csv", ".jsonl", ".json")
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ClassificationExample:
    """One text, or two, and its label, if that is known.

    `guid` is unique in a set. `label` is the index among the task's labels;
    for several a row, their increasing indices; for regression, the number.
    """

    guid: str
    text_a: str
    text_b: str = ""
    label: int | float | tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of a file hold what.

    Without a `label`, no labels are read; without a `guid`, rows are numbered.
    `header` is that of a file that has none; `separator` that of the labels of
    a row that may have several.
    """

    texts: tuple[str, ...]
    label: str | None = None
    guid: str | None = None
    header: tuple[str, ...] | None = None
    separator: str = ""

    def __post_init__(self) -> None:
        if len(self.texts) not in (1, 2) or self.label in self.texts:
            raise ValueError(
                "`text_columns` must name one column or two, and not that of "
                f"the label. Received: text_columns={','.join(self.texts)}, "
                f"label_column={self.label}."
            )


def find_split(data_dir: files.Path, split: str) -> str | None:
    """Returns the file of a split in a folder, `train.tsv` or so, or None."""
    folder = files.check_local(data_dir)
    candidates = (os.path.join(folder, split + ending) for ending in _ENDINGS)
    paths = [*filter(os.path.isfile, candidates)]
    if len(paths) > 1:
        raise ValueError(
            f"There are several files for {split}: {', '.join(paths)}. Name "
            "the one to read."
        )
    return paths[0] if paths else None


class TableStream:
    """The examples of a file without labels, read anew each time.

    Ids are not compared. Bad rows are found when the stream is made.
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
        _LOGGER.warning(
            "%s: skipped %d rows with too few or too many fields, as the "
            "original does (lines %s).",
            path,
            len(broken_rows),
            checks.listed(broken_rows),
        )
    example_files.check_ids([example.guid for example in examples], str(path))
    return examples


def _iterate(
    path: Source,
    columns: Columns,
    labels: Sequence[str] = (),
    guid_prefix: str = "",
    broken_rows: list[int] | None = None,
) -> Iterator[ClassificationExample]:
    names = [*columns.texts, columns.label, columns.guid]
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
            text, where = fields[num_texts], f"{path}, line {line}"
            label = _parse_label(text, labels, columns.separator, where)
        yield ClassificationExample(
            guid=fields[-1] if columns.guid else f"{guid_prefix}{line - 1}",
            text_a=fields[0],
            text_b=fields[1] if num_texts > 1 else "",
            label=label,
        )


def read_labels(
    path: Source, column: str, *, separator: str = ""
) -> tuple[str, ...]:
    """Returns the different labels of a training file, sorted."""
    labels: set[str] = set()
    for line, (text,) in example_files.read_rows(
        path, [column], list_column=column if separator else None
    ):
        where = f"{path}, line {line}"
        row = split_labels(text, separator, where) if separator else [text]
        for label in row:
            if label not in labels:
                _check_label(label, where)
                labels.add(label)
    check_labels(sorted(labels), f"{path}, column {column!r}")
    return tuple(sorted(labels))


def split_labels(text: str, separator: str, where: str) -> list[str]:
    """Returns the labels of a row, divided by `separator` or listed in JSON.

    >>> split_labels("news, sport", ",", "line 1")
    ['news', 'sport']
    >>> split_labels('["news, local", "sport"]', ";", "line 1")
    ['news, local', 'sport']
    """
    if not text.lstrip().startswith("["):
        parts = (part.strip() for part in text.split(separator))
        return [part for part in parts if part]
    try:
        labels = json.loads(text)
    except json.JSONDecodeError:
        labels = [None]
    if not all(
        isinstance(label, str) and separator not in label for label in labels
    ):
        raise ValueError(
            f"{where}: labels that begin with a bracket must be a list of "
            f"strings in JSON, without the --label_separator {separator!r}. "
            f"Received: {text!r}."
        )
    return list(labels)


def check_labels(labels: Sequence[str], where: str) -> None:
    """Checks the labels of a task; those that look alike are warned of."""
    for label in labels:
        _check_label(label, where)
    if len(set(labels)) < len(labels) or not 1 < len(labels) <= _MAX_LABELS:
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
            _LOGGER.warning(
                "%s: the labels %s differ only in case or white space, and "
                "are different classes.",
                where,
                ", ".join(group),
            )


def _check_label(label: str, where: str) -> None:
    if not label.strip() or {*label} & {*"\t\r\n"}:
        raise ValueError(
            f"{where}: a label must not be empty, nor have tabs or line "
            f"breaks. Received: {label!r}."
        )


def _parse_label(
    text: str, labels: Sequence[str], separator: str, where: str
) -> int | float | tuple[int, ...]:
    """Returns what `ClassificationExample.label` holds."""
    if separator:
        row = split_labels(text, separator, where)
        return tuple(sorted({_index(label, labels, where) for label in row}))
    if labels:
        return _index(text, labels, where)
    try:
        # Python reads 1_000 as a number.
        target = float(text.replace("_", "?"))
    except ValueError:
        target = math.nan
    if not abs(target) <= _LARGEST_NUMBER:
        raise ValueError(
            f"{where}: the label of a regression must be a number of float32. "
            f"Received: {text!r}."
        )
    return target


def _index(label: str, labels: Sequence[str], where: str) -> int:
    if label in labels:
        return labels.index(label)
    raise ValueError(
        f"{where}: the label must be one of "
        f"{checks.listed(map(repr, labels))}. Received: {label!r}."
    )
