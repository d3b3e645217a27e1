"""The heads of ALBERT, as checkpoints of every format store them.

One record for each head; its `tasks.spec.HeadSpec` answers texts. A head of
another package is found by name, see `in_package`: the groups of its variables
have the names of its layers, see `variable_names.head_of`. A model is imported
when it is made.
"""

import dataclasses
import importlib.metadata
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from albert_tf import checks, registry
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig

if TYPE_CHECKING:
    import keras

    from albert_tf.checkpoints.checkpoint import Checkpoint

# Installed packages name the `HeadSpec`s of their heads in this group.
ENTRY_POINTS = "albert_tf.heads"
# By group of variables, what a pretraining head learns.
OBJECTIVES = {"cls/predictions": "mlm", "cls/seq_relationship": "sop"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head:
    """A head, as a checkpoint has it.

    Args:
        name: Its name in Python, in commands and in `metadata.json`.
        make_model: Takes a config, the checkpoint (for sizes such as the number
            of labels) and keywords of the model's class; returns the model.
        model_class: Name of this class.
        groups: Groups of variables, of `variable_names.head_of`; a checkpoint
            with one of them may have this head. Empty for the bare encoder.
        over_pooler: The groups that are trained on the pooled output.
        transformers: Class of transformers with exactly these groups, if any.
        pipeline: Name of its task on model hubs; "" if it has learnt none.
        command: The command that trains it.
    """

    name: str
    make_model: Callable[..., "keras.Model"]
    model_class: str = ""
    groups: frozenset[str] = frozenset()
    over_pooler: frozenset[str] = frozenset()
    transformers: str | None = None
    pipeline: str = ""
    command: str = "run_pretraining.py"


# By name, in the order of this file.
HEADS: dict[str, Head] = {}


def _head(
    name: str,
    sizes: Callable[["Checkpoint"], Mapping[str, Any]] = lambda stored: {},
    **fields: Any,
) -> Head:
    # `sizes` returns the arguments that depend on the stored weights.
    def make_model(
        config: AlbertConfig, stored: "Checkpoint", **arguments: object
    ) -> "keras.Model":
        make: Callable[..., keras.Model] = registry.load(registry.MODELS[name])
        return make(config, **{**sizes(stored), **arguments})

    _, _, model_class = registry.MODELS[name].partition(":")
    HEADS[name] = Head(
        name=name, make_model=make_model, model_class=model_class, **fields
    )
    return HEADS[name]


def _objectives(stored: "Checkpoint") -> dict[str, Any]:
    found = [OBJECTIVES[group] for group in OBJECTIVES if group in stored.heads]
    return {"objectives": found or [*OBJECTIVES.values()]}


def _num_labels(stored: "Checkpoint") -> dict[str, Any]:
    return {"num_labels": len(stored.arrays.get("output_bias", [0]))}


ENCODER = _head("encoder", transformers="AlbertModel")
PRETRAINING = _head(
    "pretraining",
    _objectives,
    groups=frozenset(OBJECTIVES),
    over_pooler=frozenset({"cls/seq_relationship"}),
    transformers="AlbertForPreTraining",
)
CLASSIFIER = _head(
    "classifier",
    _num_labels,
    groups=frozenset({"task"}),
    over_pooler=frozenset({"task"}),
    transformers="AlbertForSequenceClassification",
    pipeline="text-classification",
    command="run_classifier.py",
)
# Regression, multiple choice and the labels of tokens have the same variables.
MULTIPLE_CHOICE = _head(
    "multiple_choice",
    groups=CLASSIFIER.groups,
    over_pooler=CLASSIFIER.over_pooler,
    transformers="AlbertForMultipleChoice",
    pipeline="multiple-choice",
    command="run_race.py",
)
SPAN = _head(
    "span",
    groups=frozenset({"cls/squad"}),
    transformers="AlbertForQuestionAnswering",
    pipeline="question-answering",
    command="run_squad.py",
)
BEAM_SPAN = _head(
    "beam_span",
    groups=frozenset({"beam"}),
    pipeline=SPAN.pipeline,
    command=SPAN.command,
)
TOKEN_CLASSIFIER = _head(
    "token_classifier",
    _num_labels,
    groups=CLASSIFIER.groups,
    transformers="AlbertForTokenClassification",
    pipeline="token-classification",
    command="run_ner.py",
)
# Heads by task, which an export may name in place of a head.
OF_TASKS = {
    "squad": (SPAN, BEAM_SPAN),
    "race": (MULTIPLE_CHOICE,),
    "ner": (TOKEN_CLASSIFIER,),
}


def named(head: str | Head) -> Head:
    """Returns the head with a name, in the table or in another package.

    Raises:
        ValueError: There is none; the message lists all of the table.
    """
    if isinstance(head, Head):
        return head
    if head not in HEADS and (head_spec := in_package(head)):
        package_head: Head = head_spec.head
        return package_head
    checks.check_choice("head", head, tuple(HEADS))
    return HEADS[head]


def in_package(name: str) -> Any:
    """Returns the `HeadSpec` of another package's head; None if there is none.

    Args:
        name: `package.module:SPEC`; or the name of a head, which the entry
            point of an installed package has, in the group `albert_tf.heads`.

    Raises:
        ValueError: The module cannot be imported, or it has no such `HeadSpec`.
    """
    reference = name
    if ":" not in name:
        points = [
            *importlib.metadata.entry_points(group=ENTRY_POINTS, name=name)
        ]
        if not points:
            return None
        reference = points[0].value
    try:
        head_spec = registry.load(reference)
    except Exception as error:  # Of any module.
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"The head {name!r} cannot be imported from {reference} ({reason})."
        ) from error
    if not isinstance(getattr(head_spec, "head", None), Head):
        raise ValueError(
            f"The head {name!r}: {reference} is no `HeadSpec`. Pass "
            "package.module:SPEC, where SPEC is a subclass, or one of its "
            "instances."
        )
    return head_spec


def present(groups: Collection[str], metadata: Metadata) -> list[Head]:
    """Returns the heads with any of these groups, heads of tasks first.

    Of several heads with the same groups, the result has the head that the
    metadata name, or else the first.
    """
    by_groups: dict[frozenset[str], Head] = {}
    for head in HEADS.values():
        is_chosen = head.name == metadata.head or head.groups not in by_groups
        if is_chosen and not head.groups.isdisjoint(groups):
            by_groups[head.groups] = head
    return sorted(by_groups.values(), key=lambda head: head is PRETRAINING)


def candidates(groups: Collection[str], metadata: Metadata) -> list[str]:
    """Returns the names of the heads that a checkpoint may be used with.

    They are heads of tasks, and groups that belong to no head of the table;
    without any, `pretraining`, or else `encoder`.
    """
    heads = present(groups, metadata)
    names = [head.name for head in heads if head is not PRETRAINING]
    names += unknown(groups)
    return names or [head.name for head in heads] or [ENCODER.name]


def unknown(
    groups: Collection[str], others: Collection[Head] = ()
) -> list[str]:
    """Returns the groups that neither the table nor `others` have."""
    known = (head.groups for head in (*HEADS.values(), *others))
    return sorted({*groups}.difference(*known))
