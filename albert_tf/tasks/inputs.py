"""Inputs of `Predictor.predict` as texts by name, checked.

`position` is which of the inputs it is, for messages.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class OneOrTwoTexts(NamedTuple):
    """One text, or two."""

    text_a: str
    text_b: str = ""


def values_by_name(position: int, item: Any, *names: str) -> dict[str, Any]:
    """Returns the values of an input by name, in the order of the names."""
    if isinstance(item, Mapping) and {*item} >= {*names}:
        return {name: item[name] for name in names}
    if isinstance(item, tuple) and len(item) == len(names):
        return dict(zip(names, item, strict=True))
    raise ValueError(
        f"Input {position} must have {', '.join(names)}. "
        f"Received: {item!r:.100}."
    )


def text(position: int, value: Any) -> str:
    """Returns a value as a text."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, str):
        return value
    raise ValueError(f"Input {position} has {value!r:.100}, which is no text.")


def texts_by_name(position: int, item: Any, *names: str) -> dict[str, Any]:
    """Returns the texts of an input by name, in the order of the names.

    >>> texts_by_name(0, ("Who?", "Ann."), "question", "context")
    {'question': 'Who?', 'context': 'Ann.'}
    """
    values = values_by_name(position, item, *names)
    return {name: text(position, value) for name, value in values.items()}


def one_or_two_texts(position: int, item: Any) -> OneOrTwoTexts:
    """Returns a text, or `text_a` and `text_b`."""
    if not isinstance(item, tuple | Mapping):
        item = {"text_a": item}
    is_one = isinstance(item, Mapping) and len(item) == 1
    names = ["text_a"] if is_one else ["text_a", "text_b"]
    return OneOrTwoTexts(**texts_by_name(position, item, *names))
