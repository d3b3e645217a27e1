"""Checks and compares values, and says in plain words how to correct them.

Every config checks its fields with these functions when it is made.
"""

import contextlib
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_LONGEST_SHOWN = 60  # characters of a value in a message
_LIMITS = {
    "above": operator.gt,
    "at_least": operator.ge,
    "below": operator.lt,
    "at_most": operator.le,
}


def check_integer(
    name: str, value: Any, *, at_least: int = 0, at_most: int | None = None
) -> None:
    """Checks that a value is a whole number within bounds."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    in_range = is_integer and value >= at_least
    if not in_range or (at_most is not None and value > at_most):
        limit = "" if at_most is None else f" and at most {at_most}"
        raise ValueError(
            f"`{name}` must be a whole number of at least {at_least}{limit}. "
            f"Received: {name}={value!r}."
        )


def check_number(name: str, value: Any, **limits: float) -> None:
    """Checks that a value is a finite number within bounds.

    The bounds are `above`, `at_least`, `below` and `at_most`.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_within = is_number and all(
        _LIMITS[word](value, limit) for word, limit in limits.items()
    )
    if not is_within or not math.isfinite(value):
        wanted = " and".join(
            f" {word.replace('_', ' ')} {limit:g}"
            for word, limit in limits.items()
        )
        raise ValueError(
            f"`{name}` must be a finite number{wanted}. "
            f"Received: {name}={value!r}."
        )


def check_numbers(config: object, *names: str, **limits: float) -> None:
    """Checks settings of a config, by `check_number`."""
    for name in names:
        check_number(name, getattr(config, name), **limits)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Checks that a value is one of the given names."""
    if value not in choices:
        raise ValueError(
            f"`{name}` must be one of {', '.join(choices)}. "
            f"Received: {name}={value!r}."
        )


def check_given(config: object, *names: str) -> None:
    """Checks that these settings of a config are not empty."""
    for name in names:
        if not getattr(config, name):
            raise ValueError(f"`{name}` must be given.")


@contextlib.contextmanager
def needs_package(package: str, user: str) -> Iterator[None]:
    """Names the user of a package that the `with` block fails to import."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{user} needs the package {package}. Install it, or the extra "
            "`data` of albert_tf, which has it."
        ) from error


def differences(
    stored: Mapping[str, Any], current: Mapping[str, Any]
) -> list[str]:
    """Compares two sets of settings; returns a phrase for each difference.

    Inner objects are compared value by value, under the name `outer.inner`;
    tuples and lists are the same. Long values, such as digests, are shortened.
    A setting that only one set has, and does not use, makes no difference.

    >>> differences({"rate": 0.1, "a": {"b": 1}}, {"rate": 0.1, "a": {"b": 2}})
    ['a.b=1 (now 2)']
    """
    stored, current = _flat(stored), _flat(current)
    both = stored.keys() & current.keys()
    return [
        f"{name}={_shown(stored.get(name))} (now {_shown(current.get(name))})"
        for name in {**stored, **current}
        if (
            stored[name] != current[name]
            if name in both
            else stored.get(name) or current.get(name)
        )
    ]


def listed(items: Iterable[Any], *, at_most: int = 5) -> str:
    """Lists items for a message, and says how many more there are.

    >>> listed("abcd", at_most=2)
    'a, b and 2 more'
    """
    items = list(map(str, items))
    text = ", ".join(items[:at_most]) or "(none)"
    more = len(items) - at_most
    return f"{text} and {more} more" if more > 0 else text


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            inner = _flat(value).items()
            flat |= {f"{name}.{key}": item for key, item in inner}
        else:
            flat[name] = list(value) if isinstance(value, tuple) else value
    return flat


def _shown(value: Any) -> str:
    text = repr(value)
    end = "..." if len(text) > _LONGEST_SHOWN else ""
    return text[:_LONGEST_SHOWN] + end
