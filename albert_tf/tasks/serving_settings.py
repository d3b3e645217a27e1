"""The settings of an export that its signatures depend on.

Plain Python: a command checks them before any slow import.
"""

import dataclasses
from typing import Any, ClassVar

from albert_tf import checks
from albert_tf.checkpoints.checkpoint import Note
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.settings import setting
from albert_tf.tasks import head_flags


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServingSettings:
    """The settings of all heads; `max_seq_length` is that of raw text."""

    # Names of settings that are by default those of the fine-tuning.
    as_trained: ClassVar[tuple[str, ...]] = ()
    # Names of settings that have no effect on the signature of ids.
    not_in_litert: ClassVar[tuple[str, ...]] = ()

    max_seq_length: int
    for_litert: bool = False

    def __post_init__(self) -> None:
        for name in self.not_in_litert:
            if self.for_litert and getattr(self, name):
                raise ValueError(
                    f"--format=litert is without `{name}`. Received: "
                    f"{name}={getattr(self, name)}."
                )

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of the settings that only some heads have."""
        common = {field.name for field in dataclasses.fields(ServingSettings)}
        names = (field.name for field in dataclasses.fields(cls))
        return tuple(name for name in names if name not in common)

    def answer_settings(self) -> dict[str, Any]:
        """Returns what `load_predictor` needs to answer as the export does."""
        return {"max_seq_length": self.max_seq_length}

    def applied_to(self, known: Metadata) -> Metadata:
        """Returns what is known of the export, given that of its checkpoint."""
        return known

    def notes(self, known: Metadata) -> list[Note]:
        """Returns notes on what is replaced, or assumed."""
        assumed = self.applied_to(known).assumed
        text = f"{assumed} (the checkpoint has none)"
        return [Note("assumed", text)] if assumed else []


@dataclasses.dataclass(frozen=True, kw_only=True)
class EarlyExitSettings(ServingSettings):
    """The settings of a head over the pooled output."""

    not_in_litert = ("exit_patience",)

    exit_patience: int = setting(
        0, f"classifier, race: {head_flags.PATIENCE_HELP}"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.check_integer("exit_patience", self.exit_patience, at_least=0)
