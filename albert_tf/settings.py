"""Fields of a config that are also command-line flags.

The name, type, default and help of a flag stand in one place, the field of the
dataclass that holds its value; `albert_tf/cli/flags.py` defines and reads the
flags from there.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

_HELP = "help"
_CHOICES = "choices"
_AFFECTS_TRAINING = "affects_training"


def setting(
    default: Any,
    help: str,
    *,
    choices: Sequence[str] = (),
    affects_training: bool = False,
) -> Any:
    """Returns a dataclass field that can become a flag of the same name.

    >>> @dataclasses.dataclass(frozen=True, kw_only=True)
    ... class Config:
    ...     ngram: int = setting(3, "Longest n-gram masked together.")
    >>> help_of(dataclasses.fields(Config)[0])
    'Longest n-gram masked together.'

    Args:
        default: Default of the field and of the flag; must be immutable.
        help: One or two sentences for `--help` and `docs/flags.md`.
        choices: Valid values of a text field; empty for any.
        affects_training: Whether the weights, or which of them are the best,
            depend on the value, in a task's own settings.
    """
    metadata = {
        _HELP: help,
        _CHOICES: tuple(choices),
        _AFFECTS_TRAINING: affects_training,
    }
    return dataclasses.field(default=default, metadata=metadata)


def affects_training(config: Any) -> dict[str, Any]:
    """Returns the settings of a task that its trained weights depend on."""
    return {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if field.metadata.get(_AFFECTS_TRAINING)
    }


def help_of(field: "dataclasses.Field[Any]") -> str | None:
    """Returns the help of a field; None if it is not made by `setting`."""
    return field.metadata.get(_HELP)


def choices_of(field: "dataclasses.Field[Any]") -> tuple[str, ...]:
    """Returns the valid values of a field; empty for any."""
    return field.metadata.get(_CHOICES, ())
