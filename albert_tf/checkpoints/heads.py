"""The heads of ALBERT, as checkpoints of every format store them.

One record for each head. What is done with a head is its `tasks.spec.TaskSpec`.
A head that is not in the table is used by passing its record: the groups of its
variables are then called as its layers are, see `variable_names.head_of`.

Plain Python: a model is imported when it is made.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from albert_tf.config import AlbertConfig

if TYPE_CHECKING:
    import keras

    from albert_tf.checkpoints.checkpoint import Checkpoint

# By group of variables, what a pretraining head learns.
OBJECTIVES = {"cls/predictions": "mlm", "cls/seq_relationship": "sop"}


class MakeModel(Protocol):
    """Makes a model with a head.

    `stored` is the checkpoint that the model will have the weights of, whose
    sizes it takes; `arguments` are those of the model's class.
    """

    def __call__(
        self, config: AlbertConfig, stored: "Checkpoint", **arguments: Any
    ) -> "keras.Model": ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head:
    """A head, as a checkpoint has it.

    Args:
        name: The word for it: `head` in Python, of commands, in `metadata.json`.
        make_model: See `MakeModel`.
        groups: Groups of variables, of `variable_names.head_of`; a checkpoint
            with one of them may have this head. Empty for the bare encoder.
        transformers: The class of transformers that has exactly these groups;
            None if there is none.
        uses_pooler: Whether the head reads the pooled output.
        other_names: Names of tasks by which checkpoints that do not name
            their head are known to have this one.
    """

    name: str
    make_model: MakeModel
    groups: frozenset[str] = frozenset()
    transformers: str | None = None
    uses_pooler: bool = False
    other_names: frozenset[str] = frozenset()


def objectives_of(stored: "Checkpoint") -> list[str]:
    """Returns the objectives of a pretraining head; all if it has none."""
    return [
        objective
        for group, objective in OBJECTIVES.items()
        if group in stored.heads
    ] or [*OBJECTIVES.values()]


def _encoder(
    config: AlbertConfig, stored: "Checkpoint", **arguments: Any
) -> "keras.Model":
    from albert_tf.modeling.albert_model import AlbertModel

    return AlbertModel(config, **arguments)


def _pretraining(
    config: AlbertConfig, stored: "Checkpoint", **arguments: Any
) -> "keras.Model":
    from albert_tf.modeling.pretraining_model import PretrainingModel

    arguments.setdefault("objectives", objectives_of(stored))
    return PretrainingModel(config, **arguments)


def _classifier(
    config: AlbertConfig, stored: "Checkpoint", **arguments: Any
) -> "keras.Model":
    from albert_tf.modeling.sequence_models import ClassifierModel

    outputs = stored.arrays.get("output_bias", [0])
    arguments.setdefault("num_labels", len(outputs))
    return ClassifierModel(config, **arguments)


def _multiple_choice(
    config: AlbertConfig, stored: "Checkpoint", **arguments: Any
) -> "keras.Model":
    from albert_tf.modeling.sequence_models import MultipleChoiceModel

    return MultipleChoiceModel(config, **arguments)


def _span(
    config: AlbertConfig, stored: "Checkpoint", **arguments: Any
) -> "keras.Model":
    from albert_tf.modeling.span_models import SpanModel

    return SpanModel(config, **arguments)


def _beam_span(
    config: AlbertConfig, stored: "Checkpoint", **arguments: Any
) -> "keras.Model":
    from albert_tf.modeling.span_models import BeamSpanModel

    return BeamSpanModel(config, **arguments)


ENCODER = Head(name="encoder", make_model=_encoder, transformers="AlbertModel")
PRETRAINING = Head(
    name="pretraining",
    make_model=_pretraining,
    groups=frozenset(OBJECTIVES),
    transformers="AlbertForPreTraining",
)
CLASSIFIER = Head(
    name="classifier",
    make_model=_classifier,
    groups=frozenset({"task"}),
    transformers="AlbertForSequenceClassification",
    uses_pooler=True,
)
# Regression and multiple choice have the same variables.
MULTIPLE_CHOICE = Head(
    name="multiple_choice",
    make_model=_multiple_choice,
    groups=frozenset({"task"}),
    transformers="AlbertForMultipleChoice",
    uses_pooler=True,
    other_names=frozenset({"race"}),
)
SPAN = Head(
    name="span",
    make_model=_span,
    groups=frozenset({"cls/squad"}),
    transformers="AlbertForQuestionAnswering",
)
BEAM_SPAN = Head(
    name="beam_span", make_model=_beam_span, groups=frozenset({"beam"})
)
HEADS: Mapping[str, Head] = {
    head.name: head
    for head in (
        ENCODER,
        PRETRAINING,
        CLASSIFIER,
        MULTIPLE_CHOICE,
        SPAN,
        BEAM_SPAN,
    )
}
