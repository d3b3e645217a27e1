"""Lengths, in tokens, of a sequence and of its parts."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from albert_tf import checks

NUM_SPECIAL_TOKENS = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lengths:
    """The longest sequence; subclasses add other lengths.

    `part` names that of the question, beside which there is room for at least
    one token of the text.
    """

    part: ClassVar[str]
    max_seq_length: int

    def __post_init__(self) -> None:
        checks.check_integer("max_seq_length", self.max_seq_length, at_least=5)
        checks.check_integer(
            self.part,
            getattr(self, self.part),
            at_least=1,
            at_most=self.max_seq_length - NUM_SPECIAL_TOKENS - 1,
        )

    @classmethod
    def within(cls, values: Mapping[str, Any]) -> Self:
        """Returns the lengths that are among values by name.

        One that is missing or None is the default, or what fits.
        """
        lengths: dict[str, Any] = {
            field.name: field.default for field in dataclasses.fields(cls)
        }
        if values.get("max_seq_length") is not None:
            lengths["max_seq_length"] = values["max_seq_length"]
        lengths[cls.part] = fitting(
            lengths[cls.part], lengths["max_seq_length"]
        )
        given = {n: values[n] for n in lengths if values.get(n) is not None}
        return cls(**lengths | given)


def fitting(length: int, max_seq_length: int) -> int:
    """Returns a length of a question, or half of a sequence that is too short.

    >>> fitting(64, 384), fitting(64, 64)
    (64, 32)
    """
    most = max_seq_length - NUM_SPECIAL_TOKENS - 1
    return length if length <= most else max_seq_length // 2
