"""A bar that shows on a terminal how far something is."""

from typing import Any

import tqdm


def bar(
    *, total: int | None, done: int = 0, unit: str = "step"
) -> "tqdm.tqdm[Any]":
    """Returns a bar on stderr that is silent if stderr is not a terminal."""
    return tqdm.tqdm(
        total=total,
        initial=done,
        unit=unit,
        disable=None,  # unless stderr is a terminal
        dynamic_ncols=True,
    )
