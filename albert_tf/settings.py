"""Fields of a config that are also command-line flags, and keywords in Python.

The name, type, default and help of a setting stand in one place, the field of
the dataclass that holds its value. The settings that a user gave, by flags or
keywords, are a mapping that holds nothing else; `read` makes a config from it.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from albert_tf import checks

Config = TypeVar("Config")
# Values of settings, by name.
SettingValues: TypeAlias = Mapping[str, Any]


def setting(
    default: object,
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
    config_class: type[Config], values: SettingValues, **others: object
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
