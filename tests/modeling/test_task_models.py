"""The models of tasks, against recorded numbers (tests/parity)."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.fused import computing_with
from albert_tf.tasks.classification.model import ClassificationTask
from albert_tf.tasks.race.model import MultipleChoiceTask
from albert_tf.tasks.squad.model import BeamSpanTask, SpanTask
from tests.modeling.recorded import Recorded

# By the name of the recorded numbers.
_TASKS = {
    "classifier": functools.partial(ClassificationTask, num_labels=3),
    "regression": functools.partial(ClassificationTask, num_labels=0),
    "race": MultipleChoiceTask,
    "squad_v1": SpanTask,
    "squad_v2": functools.partial(BeamSpanTask, dropout_prob=0.0),
    "squad_v2_short_paragraph": BeamSpanTask,
}
_BY_XLA = ("classifier", "squad_v2_short_paragraph")


def _load(name):
    """Returns the numbers, and a task with the recorded weights."""
    recorded = Recorded(name)
    task = _TASKS[name](recorded.config)
    recorded.load(task.model)
    return recorded, task


# The recorded numbers of the regression are without the last axis.
@pytest.mark.parametrize("name", sorted({*_TASKS} - {"regression"}))
def test_a_compiled_graph_gives_the_recorded_outputs(name):
    recorded, task = _load(name)
    batch = recorded.inputs
    # As the pipeline hands it over: the lengths of the batch are not known.
    signature = {
        key: tf.TensorSpec([None] * array.ndim, array.dtype)
        for key, array in batch.items()
    }

    # XLA takes seconds for each.
    @tf.function(jit_compile=name in _BY_XLA, input_signature=[signature])
    def compiled(inputs):
        return task.outputs(inputs)

    recorded.assert_outputs(compiled(batch))


@pytest.mark.parametrize("name", [*_TASKS][:-1])
def test_loss_and_gradients_in_training_equal_the_recorded_ones(
    name, operations
):
    recorded, task = _load(name)
    batch = recorded.batch | recorded.inputs
    denominators = task.loss_denominators(batch)

    def loss():
        with computing_with(task.model, operations):
            return task.loss(batch, denominators, seed=None)[0]

    prefix = "train/" if name == "squad_v2" else ""
    recorded.assert_close(np.asarray(loss()), f"{prefix}loss")
    recorded.assert_gradients(
        task.model, loss, norm=f"{prefix}grad_global_norm"
    )
