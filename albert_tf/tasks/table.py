"""The tables of heads and of fine-tunings, which are imported when needed."""

import functools
import pkgutil
from collections.abc import Mapping

from albert_tf import checks
from albert_tf.checkpoints import heads
from albert_tf.tasks.spec import FinetuningSpec, HeadSpec, ServingSettings

_SPECS = {
    heads.ENCODER: "encoder.spec:EncoderSpec",
    heads.PRETRAINING: "pretraining.spec:PretrainingSpec",
    heads.CLASSIFIER: "classification.spec:ClassifierSpec",
    heads.MULTIPLE_CHOICE: "race.spec:MultipleChoiceSpec",
    heads.SPAN: "squad.spec:SpanSpec",
    heads.BEAM_SPAN: "squad.spec:BeamSpanSpec",
}
_FINETUNED = ("classification", "squad", "race")


def spec_class(head: str) -> type[HeadSpec]:
    """Returns the class of a head's `HeadSpec`; imports nothing of others."""
    name = _SPECS[heads.named(head)]
    found: type[HeadSpec] = pkgutil.resolve_name(f"albert_tf.tasks.{name}")
    return found


@functools.cache
def all_specs() -> Mapping[str, type[HeadSpec]]:
    """Returns the classes of the `HeadSpec`s of all heads, by name."""
    return {name: spec_class(name) for name in heads.HEADS}


def serving_settings() -> list[type[ServingSettings]]:
    """Returns the classes of the settings of exports, each once."""
    specs = all_specs().values()
    return [*dict.fromkeys(spec.serving_settings for spec in specs)]


def spec_of(head: str | HeadSpec) -> HeadSpec:
    """Returns the `HeadSpec` of a head, given by name or as itself."""
    return head if isinstance(head, HeadSpec) else spec_class(head)()


def finetuning(task_name: str | FinetuningSpec) -> FinetuningSpec:
    """Returns what a task is fine-tuned with; its case does not matter."""
    if isinstance(task_name, FinetuningSpec):
        return task_name
    specs: dict[str, FinetuningSpec] = {}
    for package in _FINETUNED:
        path = f"albert_tf.tasks.{package}.sets:FINETUNING"
        spec = pkgutil.resolve_name(path)
        specs |= dict.fromkeys(spec.task_names, spec)
    checks.check_choice("task_name", task_name.lower(), tuple(specs))
    return specs[task_name.lower()]
