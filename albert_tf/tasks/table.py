"""The tables of heads and of fine-tunings; importing them is quick."""

from collections.abc import Mapping

from albert_tf import checks
from albert_tf.checkpoints import heads
from albert_tf.tasks.classification import sets as classification
from albert_tf.tasks.classification.spec import ClassifierSpec
from albert_tf.tasks.encoder import sets as similarity
from albert_tf.tasks.encoder.spec import EncoderSpec
from albert_tf.tasks.pretraining.spec import PretrainingSpec
from albert_tf.tasks.race import sets as race
from albert_tf.tasks.race.spec import MultipleChoiceSpec
from albert_tf.tasks.spec import FinetuningSpec, HeadSpec, ServingSettings
from albert_tf.tasks.squad import sets as squad
from albert_tf.tasks.squad.spec import BeamSpanSpec, SpanSpec
from albert_tf.tasks.tagging import sets as tagging
from albert_tf.tasks.tagging.spec import TaggingSpec

# By name of the head.
SPECS: Mapping[str, type[HeadSpec]] = {
    spec.head.name: spec
    for spec in (
        EncoderSpec,
        PretrainingSpec,
        ClassifierSpec,
        MultipleChoiceSpec,
        SpanSpec,
        BeamSpanSpec,
        TaggingSpec,
    )
}
# By the names that users know the tasks by.
FINETUNINGS: Mapping[str, FinetuningSpec] = {
    name: package.FINETUNING
    for package in (classification, squad, race, tagging, similarity)
    for name in package.FINETUNING.task_names
}


def serving_settings() -> list[type[ServingSettings]]:
    """Returns the classes of the settings of exports, each once."""
    return [*dict.fromkeys(spec.serving_settings for spec in SPECS.values())]


def spec_of(head: str | HeadSpec) -> HeadSpec:
    """Returns the `HeadSpec` of a head, given by name or as itself."""
    if isinstance(head, HeadSpec):
        return head
    return SPECS[heads.named(head).name]()


def finetuning(task_name: str | FinetuningSpec) -> FinetuningSpec:
    """Returns what a task is fine-tuned with; its case does not matter."""
    if isinstance(task_name, FinetuningSpec):
        return task_name
    checks.check_choice("task_name", task_name.lower(), tuple(FINETUNINGS))
    return FINETUNINGS[task_name.lower()]
