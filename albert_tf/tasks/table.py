"""The table of all heads: a package for each, imported when needed."""

import functools
import pkgutil
from collections.abc import Mapping

from albert_tf.checkpoints import heads
from albert_tf.tasks.serving_settings import ServingSettings
from albert_tf.tasks.spec import HeadSpec

_SPECS = {
    heads.ENCODER: "encoder.spec:EncoderSpec",
    heads.PRETRAINING: "pretraining.spec:PretrainingSpec",
    heads.CLASSIFIER: "classification.spec:ClassifierSpec",
    heads.MULTIPLE_CHOICE: "race.spec:MultipleChoiceSpec",
    heads.SPAN: "squad.spec:SpanSpec",
    heads.BEAM_SPAN: "squad.spec:BeamSpanSpec",
}


def spec_class(head: str) -> type[HeadSpec]:
    """Returns the class of a head's `HeadSpec`; imports nothing of others."""
    name = _SPECS[heads.named(head)]
    found: type[HeadSpec] = pkgutil.resolve_name(f"albert_tf.tasks.{name}")
    return found


@functools.cache
def all_specs() -> Mapping[str, type[HeadSpec]]:
    """Returns the classes of the `HeadSpec`s of all heads, by name."""
    return {name: spec_class(name) for name in heads.HEADS}


@functools.cache
def export_tasks() -> Mapping[str, list[str]]:
    """Returns the older words of exports, with the heads they stand for."""
    words: dict[str, list[str]] = {}
    for name, spec in all_specs().items():
        if spec.export_task:
            words.setdefault(spec.export_task, []).append(name)
    return words


def serving_settings() -> list[type[ServingSettings]]:
    """Returns the classes of the settings of exports, each once."""
    specs = all_specs().values()
    return [*dict.fromkeys(spec.serving_settings for spec in specs)]


def spec_of(head: str | HeadSpec) -> HeadSpec:
    """Returns the `HeadSpec` of a head, given by name or as itself."""
    return head if isinstance(head, HeadSpec) else spec_class(head)()
