"""Inputs of `Predictor.predict` as texts by name, checked.

`position` is the number of the input, from 0, for messages.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.tasks import example_files


def parse_line(number: int, line: bytes) -> object:
    """Returns the input in a line, a text or JSON; `number` is from 1.

    >>> parse_line(1, b'["Who?", "Ann."]')
    ('Who?', 'Ann.')
    """
    # The first may begin with a byte order mark.
    text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    try:
        is_json = text.lstrip().startswith(("{", "["))
        value = json.loads(text) if is_json else text
    except (RecursionError, ValueError) as error:
        # A text may begin like JSON, such as `[MASK] is here.`
        if text.lstrip().startswith("["):
            return text
        raise ValueError(f"It is not JSON: {error}") from error
    return tuple(value) if isinstance(value, list) else value


class OneOrTwoTexts(NamedTuple):
    """One text, or two."""

    text_a: str
    text_b: str = ""


def texts_of_columns(
    position: int, item: object, columns: Sequence[str]
) -> object:
    """Returns one text or a tuple, if the item is a row with these columns.

    They are the columns of the training, if they are known. A row may also have
    the names `text_a` and `text_b`.

    >>> texts_of_columns(0, {"body": "Hi.", "id": 3}, ["body"])
    'Hi.'
    """
    row = item._asdict() if hasattr(item, "_asdict") else item
    if not columns or not isinstance(row, Mapping):
        return item
    if missing := [name for name in columns if name not in row]:
        if "text_a" in row or isinstance(item, tuple):
            return item
        raise ValueError(
            f"Input {position} must have {', '.join(columns)}, the "
            f"text_columns of the training. {', '.join(missing)} is missing; "
            f"the keys are {', '.join(map(repr, row))}."
        )
    where = f"Input {position}"
    texts = example_files.texts_of_row(row, columns, where)
    return texts if len(texts) > 1 else texts[0]


def values_by_name(position: int, item: object, *names: str) -> dict[str, Any]:
    """Returns the values of an input by name, in the order of the names."""
    row = item._asdict() if hasattr(item, "_asdict") else item
    if isinstance(row, Mapping) and {*row} >= {*names}:
        return {name: row[name] for name in names}
    if isinstance(item, tuple) and len(item) == len(names):
        return dict(zip(names, item, strict=True))
    raise ValueError(
        f"Input {position} must have {', '.join(names)}. "
        f"Received: {item!r:.100}."
    )


def text(position: int, value: object) -> str:
    """Returns a value as a text."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, str):
        return value
    raise ValueError(f"Input {position} has {value!r:.100}, which is no text.")


def texts_by_name(position: int, item: object, *names: str) -> dict[str, str]:
    """Returns the texts of an input by name, in the order of the names.

    >>> texts_by_name(0, ("Who?", "Ann."), "question", "context")
    {'question': 'Who?', 'context': 'Ann.'}
    """
    values = values_by_name(position, item, *names)
    return {name: text(position, value) for name, value in values.items()}


def list_of_texts(texts: Any) -> list[Any]:
    """Returns texts as a list; refuses a text, tables, and sets."""
    # Iterating over a DataFrame would give the names of its columns.
    is_other = isinstance(texts, Mapping | str | set | frozenset)
    if is_other or hasattr(texts, "columns") or not (texts := [*texts]):
        raise ValueError(f"Pass a list of texts. Received: {texts!r:.100}.")
    return texts


def one_or_two_texts(position: int, item: object) -> OneOrTwoTexts:
    """Returns a text, or `text_a` and `text_b`."""
    if not isinstance(item, tuple | Mapping):
        item = {"text_a": item}
    is_one = isinstance(item, Mapping) and len(item) == 1
    names = ["text_a"] if is_one else ["text_a", "text_b"]
    return OneOrTwoTexts(**texts_by_name(position, item, *names))
