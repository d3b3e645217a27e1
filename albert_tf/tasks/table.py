"""The table of all heads: a row for each record of `tasks.spec.TaskSpec`."""

from collections.abc import Mapping

from albert_tf.tasks.classification.spec import ClassifierSpec
from albert_tf.tasks.encoder.spec import EncoderSpec
from albert_tf.tasks.pretraining.spec import PretrainingSpec
from albert_tf.tasks.race.spec import MultipleChoiceSpec
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
