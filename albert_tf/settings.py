"""Fields of a config that are also command-line flags, and keywords in Python.

The name, type, default and help of a setting stand in one place, the field of
the dataclass that holds its value. The settings that a user gave, by flags or
keywords, are a mapping that holds nothing else; `read` makes a config of it.
"""

import csv
import dataclasses
import difflib
import io
import os
import reprlib
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from albert_tf import checks

Config = TypeVar("Config")
# Values of settings, by name.
SettingValues: TypeAlias = Mapping[str, Any]


def setting(
    default: Any,
    help: str,
    *,
    choices: Sequence[str] = (),
    affects_training: bool = False,
    **limits: float,
) -> Any:
    """Returns a dataclass field that can become a flag of the same name.

    Args:
        default: Default of the field and of the flag.
        help: One or two sentences for `--help` and `docs/flags.md`.
        choices: Valid values of a text field; empty for any.
        affects_training: Whether the weights, or which of them are the best,
            depend on the value, in a task's own settings.
        **limits: Bounds of a number: `above`, `at_least`, `below`, `at_most`. A
            whole number is at least 0 without them.
    """
    return dataclasses.field(
        default=default,
        metadata={
            "help": help,
            "choices": tuple(choices),
            "affects_training": affects_training,
            "limits": limits,
        },
    )


def affects_training(config: Any) -> dict[str, Any]:
    """Returns the settings of a task that its trained weights depend on."""
    return {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if field.metadata.get("affects_training")
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that are checked, each by itself, when the config is made."""

    def __post_init__(self) -> None:
        check(type(self), vars(self))


def check(config_class: type, values: SettingValues) -> None:
    """Checks the settings of a config that are given, by name.

    A setting whose default is None may be None.
    """
    fields = fields_of(config_class)
    for name in filter(values.__contains__, fields):
        value, field = values[name], fields[name]
        limits: Any = field.metadata["limits"]
        choices = field.metadata["choices"]
        if value is None and field.default is None:
            continue
        if type_of(field) is int:
            checks.check_integer(name, value, **limits)
        elif limits:
            checks.check_number(name, value, **limits)
        elif choices and isinstance(value, str):
            checks.check_choice(name, value, choices)


def type_of(field: "dataclasses.Field[Any]") -> type:
    """Returns the type of a setting: bool, int, float, str, or tuple of texts.

    The type of `int | None` is int.
    """
    annotation: Any = field.type
    if isinstance(annotation, types.UnionType):
        annotation = typing.get_args(annotation)[0]
    kind: type = typing.get_origin(annotation) or annotation
    return kind


def fields_of(*config_classes: type) -> "dict[str, dataclasses.Field[Any]]":
    """Returns the settings of some configs, by name."""
    return {
        field.name: field
        for config_class in config_classes
        for field in dataclasses.fields(config_class)
        if "help" in field.metadata
    }


def read(
    config_class: type[Config], values: SettingValues, **others: Any
) -> Config:
    """Makes a config of the values that are given; None stands for not given.

    `others` are fields that are not settings, or that replace their values.
    """
    fields = {
        name: values[name]
        for name in fields_of(config_class)
        if values.get(name) is not None
    }
    return config_class(**fields | others)


def checked(
    values: SettingValues,
    config_classes: Iterable[type],
    *,
    lists: Collection[str] = (),
) -> dict[str, Any]:
    """Returns keywords as the values of flags would be, without None.

    Lists become tuples, a text becomes the tuple of its parts between commas
    where several are wanted, and paths become texts. The settings `lists` may
    have several values.

    Raises:
        ValueError: A keyword is no setting of the configs, or its value is of
            another type.
    """
    kinds = {
        name: type_of(field)
        for name, field in fields_of(*config_classes).items()
    }
    result = {}
    for name, value in values.items():
        if name not in kinds:
            close = difflib.get_close_matches(name, kinds, 1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"There is no setting {name!r}.{hint}")
        if name in lists and isinstance(value, list | tuple) and value:
            result[name] = tuple(
                _converted(name, item, kinds[name]) for item in value
            )
        elif value is not None:
            result[name] = _converted(name, value, kinds[name])
    return result


def _converted(name: str, value: Any, kind: type) -> Any:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    # A dict or a set would have no order that the user has chosen.
    if kind is tuple and isinstance(value, str | list | tuple):
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(map(str, parts))
    wanted = int | float if kind is float else kind
    is_switch = isinstance(value, bool)
    if not isinstance(value, wanted) or (is_switch and kind is not bool):
        raise ValueError(
            f"`{name}` must be of type {kind.__name__}. Received: "
            f"{reprlib.repr(value)}."
        )
    return kind(value)


def as_text(values: SettingValues) -> str:
    r"""Returns settings as flags, one `--name=value` a line, sorted.

    >>> as_text({"do_train": True, "ngram": 3, "labels": ("a", "b")})
    '--do_train\n--labels=a,b\n--ngram=3\n'

    Settings that are None or empty are left out.
    """
    lines = []
    for name, value in values.items():
        if isinstance(value, bool):
            lines.append(f"--{name}" if value else f"--no{name}")
        elif isinstance(value, tuple | list):
            buffer = io.StringIO()
            csv.writer(buffer).writerow(value)
            lines += [f"--{name}={buffer.getvalue().strip()}"] * bool(value)
        elif value not in (None, ""):
            lines.append(f"--{name}={value}")
    text = "".join(f"{line}\n" for line in sorted(lines))
    text.encode()  # A path that is not UTF-8 could not be written.
    return text
