"""Checks of values that a user may have typed: one line that says what to do.

Every config checks its fields with these functions when it is made.

Floor 0: plain Python.
"""

import math
from collections.abc import Sequence
from typing import Any


def check_integer(
    name: str, value: Any, *, at_least: int = 0, at_most: int | None = None
) -> None:
    """Checks that a value is a whole number within bounds.

    Raises:
        ValueError: It is not; `True` and `False` are not numbers.
    """
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    in_range = is_integer and value >= at_least
    if not in_range or (at_most is not None and value > at_most):
        limit = "" if at_most is None else f" and at most {at_most}"
        raise ValueError(
            f"`{name}` must be a whole number of at least {at_least}{limit}. "
            f"Received: {name}={value!r}."
        )


def check_number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> None:
    """Checks that a value is a finite number within bounds.

    Raises:
        ValueError: It is not; `True` and `False` are not numbers.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_valid = (
        is_number
        and math.isfinite(value)
        and (above is None or value > above)
        and (at_least is None or value >= at_least)
        and (below is None or value < below)
        and (at_most is None or value <= at_most)
    )
    if not is_valid:
        limits = {
            "above": above,
            "at least": at_least,
            "below": below,
            "at most": at_most,
        }
        wanted = " and ".join(
            f"{word} {limit:g}"
            for word, limit in limits.items()
            if limit is not None
        )
        raise ValueError(
            f"`{name}` must be a finite number{wanted and f' {wanted}'}. "
            f"Received: {name}={value!r}."
        )


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Checks that a value is one of the given names.

    Raises:
        ValueError: It is not; the message lists the names.
    """
    if value not in choices:
        raise ValueError(
            f"`{name}` must be one of {', '.join(choices)}. "
            f"Received: {name}={value!r}."
        )
