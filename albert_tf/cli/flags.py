"""Command-line flags that are defined from the fields of a config.

A field made by `settings.setting` becomes a flag with its name, type, default,
help and choices.
"""

from collections.abc import Collection
from typing import Any

from absl import flags

from albert_tf import settings

FlagValues = flags.FlagValues
_KINDS = {bool: "bool", int: "integer", float: "float", str: "string"}


class _NumbersParser(flags.ArgumentParser[Any]):
    """Reads a number, or several between commas, as a list."""

    def __init__(self, kind: type) -> None:
        self._parser = getattr(flags, f"{_KINDS[kind].capitalize()}Parser")()
        self.syntactic_help = (
            f"{self._parser.syntactic_help}, or several: a,b,c"
        )

    def flag_type(self) -> str:
        """Returns the type of one number."""
        return str(self._parser.flag_type())

    def parse(self, argument: object) -> Any:
        """Returns a number or a list of them."""
        numbers = [*map(self._parser.parse, str(argument).split(","))]
        return numbers if len(numbers) > 1 else numbers[0]


def define(
    *config_classes: type, lists: Collection[str] = (), **defaults: object
) -> None:
    """Defines a flag for every setting of some configs.

    `lists` are numbers that may be several; `defaults` replace the defaults of
    the fields. A setting that several configs have means
    the same in all.
    """
    for name, field in settings.fields_of(*config_classes).items():
        default = defaults.get(name, field.default)
        _define(field, default, is_list=name in lists)


def _define(field: Any, default: Any, *, is_list: bool) -> None:
    text, kind = field.metadata["help"], settings.type_of(field)
    if is_list:
        flags.DEFINE(_NumbersParser(kind), field.name, default, text)
    elif kind is tuple:
        names: Any = list(default) or None
        flags.DEFINE_list(field.name, names, text)
    elif choices := field.metadata["choices"]:
        flags.DEFINE_enum(
            field.name, default, choices, text, case_sensitive=False
        )
    else:
        definition = getattr(flags, f"DEFINE_{_KINDS[kind]}")
        definition(field.name, None if default == "" else default, text)


def given(values: FlagValues) -> dict[str, Any]:
    """Returns the flags that the user gave, by name; lists as tuples."""
    return {
        name: tuple(flag.value) if isinstance(flag.value, list) else flag.value
        for name in values
        if (flag := values[name]).present and flag.value is not None
    }
