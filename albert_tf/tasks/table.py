"""The table of all heads: a row for each record of `tasks.spec.TaskSpec`."""

from collections.abc import Collection, Mapping

from albert_tf import checks
from albert_tf.tasks.classification.spec import ClassifierSpec
from albert_tf.tasks.encoder.spec import EncoderSpec
from albert_tf.tasks.pretraining.spec import PretrainingSpec
from albert_tf.tasks.race.spec import MultipleChoiceSpec
from albert_tf.tasks.serving_settings import ServingSettings
from albert_tf.tasks.spec import TaskSpec
from albert_tf.tasks.squad.spec import BeamSpanSpec, SpanSpec

# By the name of the head.
TASKS: Mapping[str, type[TaskSpec]] = {
    spec.head.name: spec
    for spec in (
        EncoderSpec,
        PretrainingSpec,
        ClassifierSpec,
        MultipleChoiceSpec,
        SpanSpec,
        BeamSpanSpec,
    )
}
# By an older word of exports, the heads that it stands for.
EXPORT_TASKS: Mapping[str, list[str]] = {
    word: [name for name, spec in TASKS.items() if spec.export_task == word]
    for word in dict.fromkeys(spec.export_task for spec in TASKS.values())
    if word
}


def serving_settings() -> list[type[ServingSettings]]:
    """Returns the classes of the settings of exports, each once."""
    return [*dict.fromkeys(spec.serving_settings for spec in TASKS.values())]


def spec_of(head: str | TaskSpec) -> TaskSpec:
    """Returns the record of a head, given by name or as the record itself."""
    if isinstance(head, TaskSpec):
        return head
    checks.check_choice("head", head, tuple(TASKS))
    return TASKS[head]()


def head_of_outputs(names: Collection[str]) -> str:
    """Returns the head whose `main_output` is among the names of outputs."""
    [head] = [head for head, spec in TASKS.items() if spec.main_output in names]
    return head
