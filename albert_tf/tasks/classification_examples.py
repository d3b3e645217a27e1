"""An example of classification or regression, and checks of a set of them.

Data flow: rows of a file -> [this file] -> `ClassificationData`.
Floor: tasks. Plain Python.
"""

import dataclasses
import logging
import math
from collections.abc import Iterable, Sequence

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
