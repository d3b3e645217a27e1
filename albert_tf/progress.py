"""A bar that shows on a terminal how far something is."""

import sys
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
        disable=not sys.stderr.isatty(),
        dynamic_ncols=True,
    )
