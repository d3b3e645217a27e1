"""Lengths, in tokens, of a sequence and of its parts."""

import dataclasses
from typing import Any, ClassVar, Self

from albert_tf import checks
from albert_tf.settings import SettingValues

NUM_SPECIAL_TOKENS = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lengths:
    """The longest sequence; subclasses add other lengths.

    `part` names the length of the question, which leaves room for a token.
    """

    part: ClassVar[str]
    max_seq_length: int

    def __post_init__(self) -> None:
        checks.check_integer("max_seq_length", self.max_seq_length, at_least=5)
        most = self.max_seq_length - NUM_SPECIAL_TOKENS - 1
        part = getattr(self, self.part)
        checks.check_integer(self.part, part, at_least=1, at_most=most)

    @classmethod
    def within(cls, settings: SettingValues) -> Self:
        """Returns lengths by name; for None, the default or what fits."""
        fields = dataclasses.fields(cls)
        defaults: dict[str, Any] = {f.name: f.default for f in fields}
        chosen = {
            name: settings[name]
            for name in defaults
            if settings.get(name) is not None
        }
        longest = (defaults | chosen)["max_seq_length"]
        part = fitting(defaults[cls.part], longest)
        return cls(**{cls.part: part} | chosen)


def fitting(length: int, max_seq_length: int) -> int:
    """Returns a length of a question, or half of a sequence that is too short.

    >>> fitting(64, 384), fitting(64, 64)
    (64, 32)
    """
    most = max_seq_length - NUM_SPECIAL_TOKENS - 1
    return length if length <= most else max_seq_length // 2
