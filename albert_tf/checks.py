"""Checks and compares values; error messages say how to correct them.

Every config checks its fields with these functions when it is created.
"""

import contextlib
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence

_LONGEST_SHOWN = 60  # characters of a value in a message
_LIMITS = {
    "above": operator.gt,
    "at_least": operator.ge,
    "below": operator.lt,
    "at_most": operator.le,
}


def check_integer(
    name: str, value: object, *, at_least: int = 0, at_most: int | None = None
) -> None:
    """Checks that a value is a whole number within bounds."""
    highest = math.inf if at_most is None else at_most
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and at_least <= value <= highest
    ):
        return
    limit = "" if at_most is None else f" and at most {at_most}"
    raise ValueError(
        f"`{name}` must be a whole number of at least {at_least}{limit}. "
        f"Received: {name}={value!r}."
    )


def check_number(name: str, value: object, **limits: float) -> None:
    """Checks that a value is a finite number within bounds.

    The bounds are `above`, `at_least`, `below` and `at_most`.
    """
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and all(_LIMITS[word](value, limit) for word, limit in limits.items())
        and math.isfinite(value)
    ):
        return
    bounds = " and".join(
        f" {word.replace('_', ' ')} {limit:g}" for word, limit in limits.items()
    )
    raise ValueError(
        f"`{name}` must be a finite number{bounds}. Received: {name}={value!r}."
    )


def check_numbers(config: object, *names: str, **limits: float) -> None:
    """Checks settings of a config, by `check_number`."""
    for name in names:
        check_number(name, getattr(config, name), **limits)


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
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
    stored: Mapping[str, object], current: Mapping[str, object]
) -> list[str]:
    """Compares two sets of settings; returns a phrase for each difference.

    Inner objects are compared value by value, under the name `outer.inner`;
    tuples and lists are the same. Long values, such as digests, are shortened.
    A setting in one set alone is a difference only if its value is truthy.

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


def listed(items: Iterable[object], *, at_most: int = 5) -> str:
    """Lists items for a message, and says how many more there are.

    >>> listed("abcd", at_most=2)
    'a, b and 2 more'
    """
    texts = list(map(str, items))
    text = ", ".join(texts[:at_most]) or "(none)"
    more = len(texts) - at_most
    return f"{text} and {more} more" if more > 0 else text


def _flat(settings: Mapping[str, object]) -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            for key, inner in _flat(value).items():
                flat[f"{name}.{key}"] = inner
        else:
            flat[name] = list(value) if isinstance(value, tuple) else value
    return flat


def _shown(value: object) -> str:
    text = repr(value)
    end = "..." if len(text) > _LONGEST_SHOWN else ""
    return text[:_LONGEST_SHOWN] + end
