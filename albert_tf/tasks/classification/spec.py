"""The head of classification and regression."""

import dataclasses
from typing import TYPE_CHECKING

from albert_tf.checkpoints import checkpoint, heads
from albert_tf.checkpoints.checkpoint import Note
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.settings import setting
from albert_tf.tasks.serving_settings import EarlyExitSettings
from albert_tf.tasks.spec import Exported, TaskSpec

if TYPE_CHECKING:
    from albert_tf.serving.signature import Signature


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierSettings(EarlyExitSettings):
    """The settings of an exported classifier.

    Args:
        thresholds: Of any number of labels, the probability from which on each
            is predicted. Empty for those beside the checkpoint, or 1/2.
    """

    labels: tuple[str, ...] = setting(
        (),
        "classifier: names of the labels, in the order of the outputs. "
        "Default: those beside the checkpoint, or 0,1,...",
    )
    thresholds: tuple[float, ...] = ()

    def applied_to(self, known: Metadata) -> Metadata:
        """Replaces labels and thresholds."""
        return dataclasses.replace(
            known,
            labels=self.labels or known.labels,
            thresholds=self.thresholds or known.thresholds,
        )

    def notes(self, known: Metadata) -> list[Note]:
        """Returns notes on replaced labels and unknown thresholds."""
        notes = []
        if self.labels and known.labels not in (None, self.labels):
            notes = checkpoint.notes_of(
                {"labels": known.labels}, "--labels replaces them"
            )
        if known.multi_label and not (self.thresholds or known.thresholds):
            text = (
                "a threshold of 0.5 for every label (the checkpoint has none)"
            )
            notes.append(Note("assumed", text))
        return notes


class ClassifierSpec(TaskSpec):
    """What is done with the head `classifier`."""

    head = heads.CLASSIFIER

    # Answers.

    # Served.

    serving_settings = ClassifierSettings
    main_output = "logits"
    export_task = "classifier"

    def make_signatures(self, exported: Exported) -> "list[Signature]":
        """Traces those of labels, or of a number."""
        from albert_tf.tasks.classification import signatures

        return signatures.make_signatures(exported)
