"""Lengths, in tokens, of the parts of a sequence."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lengths:
    """The longest sequence; subclasses add the lengths of its parts."""

    max_seq_length: int

    @classmethod
    def within(cls, values: Mapping[str, Any]) -> Self:
        """Returns the lengths that are among values by name.

        One that is missing or None is the default. A part of the default length
        has at most half of the sequence.
        """
        defaults: dict[str, Any] = {
            field.name: field.default for field in dataclasses.fields(cls)
        }
        lengths = {
            name: default if values.get(name) is None else values[name]
            for name, default in defaults.items()
        }
        half = lengths["max_seq_length"] // 2
        for name in lengths.keys() - {"max_seq_length"}:
            if lengths[name] == defaults[name]:
                lengths[name] = min(lengths[name], half)
        return cls(**lengths)
