"""What the replicas of a TPU compute can be compiled for it.

No TPU is needed: `tests.training.tpu` says what this shows and what it cannot.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import bucketed_batches, record_columns
from albert_tf.data.bucketed_batches import BucketedOrder
from albert_tf.data.example_order import InputShard
from albert_tf.devices import strategies
from albert_tf.tasks.classification.model import ClassificationTask
from albert_tf.tasks.pretraining.objectives import PretrainingTask
from albert_tf.tasks.race.model import MultipleChoiceTask
from albert_tf.tasks.squad.model import BeamSpanTask, SpanTask
from albert_tf.training import pretrain, record_sets, step
from tests.training import runs
from tests.training import tpu as simulation
from tests.training.runs import S
from tests.training.tpu import SimulatedTpu, problems

B, C = 4, 3
_ROWS = {
    name: tf.TensorSpec([B, S], tf.int32)
    for name in ("input_ids", "input_mask", "segment_ids")
}
_WEIGHTS = {"example_weights": tf.TensorSpec([B], tf.float32)}
_LABELS = {"label_ids": tf.TensorSpec([B], tf.int32)}
_SPANS = {
    name: tf.TensorSpec([B], tf.int32)
    for name in ("start_positions", "end_positions")
}
_PRETRAINING = {
    name: tf.TensorSpec(values.shape[1:], values.dtype)
    for name, values in runs.batches(1, size=B).items()
}
# By name of a task: its model half, and its batches.
TASKS = {
    "classification": (
        functools.partial(ClassificationTask, num_labels=3),
        _ROWS | _WEIGHTS | _LABELS,
    ),
    "class weights": (
        functools.partial(
            ClassificationTask, num_labels=2, class_weights=(1.0, 3.0)
        ),
        _ROWS | _WEIGHTS | _LABELS,
    ),
    "multi-label": (
        functools.partial(ClassificationTask, num_labels=3, multi_label=True),
        _ROWS | _WEIGHTS | {"label_ids": tf.TensorSpec([B, 3], tf.float32)},
    ),
    "regression": (
        functools.partial(ClassificationTask, num_labels=0),
        _ROWS | _WEIGHTS | {"label_ids": tf.TensorSpec([B], tf.float32)},
    ),
    "SQuAD 1.1": (SpanTask, _ROWS | _WEIGHTS | _SPANS),
    "SQuAD 2.0": (
        functools.partial(BeamSpanTask, start_n_top=3, end_n_top=2),
        _ROWS
        | _WEIGHTS
        | _SPANS
        | {
            "p_mask": tf.TensorSpec([B, S], tf.float32),
            "is_impossible": tf.TensorSpec([B], tf.float32),
        },
    ),
    "RACE": (
        MultipleChoiceTask,
        {name: tf.TensorSpec([B, C, S], tf.int32) for name in _ROWS}
        | _WEIGHTS
        | _LABELS,
    ),
}


@pytest.fixture(autouse=True)
def tpu(monkeypatch):
    """A simulated TPU, the one device of this machine."""
    monkeypatch.setattr(strategies, "device_type", lambda _: "TPU")
    return SimulatedTpu()


def make_task(kind, config):
    make, _ = TASKS[kind]
    return make(config.albert_config, seed=3, dtype=config.dtype_policy)


def batches_of(specs, count=3):
    arrays = {
        name: np.zeros([count, *spec.shape], spec.dtype.as_numpy_dtype)
        for name, spec in specs.items()
    }
    return tf.data.Dataset.from_tensor_slices(arrays)


def trace(config, task, strategy, specs, depth=None):
    """Traces the updates of a training step; returns the graph of the host."""
    made = step.TrainStep(config, task, strategy)
    return made.run.get_concrete_function(
        iter(batches_of(specs)),
        tf.constant(0, tf.int64),
        tf.constant(3),
        tf.constant([step.INITIAL_LOSS_SCALE, 0.0]),
        tf.constant(config.random_seed, tf.int64),
        depth,
    ).graph


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "adamw"},
        {"optimizer": "muon", "random_depth": True},
        {"precision": "bfloat16", "gradient_accumulation_steps": 2},
        pytest.param(
            {"recompute": True, "jit_compile": True}, marks=pytest.mark.slow
        ),
    ],
    ids=lambda settings: ",".join(settings),
)
def test_updates_of_a_pretraining_can_be_compiled(settings, tpu):
    config = runs.run_config(albert_config=runs.config(0.1), **settings)
    task = PretrainingTask(config.albert_config, dtype=config.dtype_policy)

    host = trace(config, task, tpu, _PRETRAINING, depth=1)

    assert not tpu.problems()
    # The host of a TPU may be another machine, without this Python.
    assert not {n.op for n in simulation.nodes_of(host)} & {
        "PyFunc",
        "EagerPyFunc",
    }


# `test_a_tpu_strategy_accepts_the_updates` is quick.
@pytest.mark.slow
@pytest.mark.parametrize("kind", TASKS)
def test_updates_of_a_fine_tuning_can_be_compiled(kind, tpu):
    config = runs.run_config(
        albert_config=runs.config(0.1),
        optimizer="adamw",
        precision="bfloat16",
        gradient_accumulation_steps=2,
    )

    trace(config, make_task(kind, config), tpu, TASKS[kind][1])

    assert not tpu.problems()


@pytest.mark.parametrize("kind", TASKS)
def test_outputs_can_be_compiled(kind, tpu):
    config = runs.run_config(precision="bfloat16")
    task = make_task(kind, config)

    tpu.run(task.outputs, args=(next(iter(batches_of(TASKS[kind][1]))),))

    assert not tpu.problems()


def test_an_evaluation_can_be_compiled(tpu):
    config = runs.run_config()
    task = PretrainingTask(config.albert_config)

    pretrain.evaluator(task, tpu, batches_of(_PRETRAINING | _WEIGHTS))()

    assert not tpu.problems()


@pytest.mark.parametrize("kind", ["pretraining", *TASKS])
def test_a_tpu_strategy_accepts_the_updates(kind, monkeypatch):
    monkeypatch.undo()
    strategy = simulation.strategy_of_cores(2)
    config = runs.run_config(
        albert_config=runs.config(0.1),
        optimizer="lamb" if kind == "pretraining" else "adamw",
        precision="bfloat16",
        strategy="tpu",
        gradient_accumulation_steps=2,
    )
    make, specs = TASKS.get(kind, (PretrainingTask, _PRETRAINING))
    (batch,) = batches_of(specs, count=1).as_numpy_iterator()

    with tf.Graph().as_default() as graph:
        with strategy.scope():
            task = make(config.albert_config, dtype=config.dtype_policy)
        step.TrainStep(config, task, strategy).run(
            simulation.PerReplica(strategy, batch),
            tf.constant(0, tf.int64),
            tf.constant(3),
            tf.constant([step.INITIAL_LOSS_SCALE, 0.0]),
            tf.constant(config.random_seed, tf.int64),
            1,
        )

    of_tpu = [*simulation.nodes_of(graph, of_tpu=True)]
    assert not simulation.problems_of_nodes(of_tpu)
    names = [node.op for node in of_tpu]
    assert names.count("TPUReplicateMetadata") == 1
    # Gradients, metric totals and denominators are summed over the cores.
    assert names.count("CrossReplicaSum") > len(specs)
    host = {node.op for node in simulation.nodes_of(graph)}
    assert not host & {"PyFunc", "EagerPyFunc", "Timestamp"}


def test_batches_of_a_fine_tuning_have_one_shape(tpu):
    columns = record_columns.collect(
        runs.WordData().records(runs.sentences(11), is_training=True),
        runs.WordData.array_specs,
        max_seq_length=S,
    )
    padding = record_sets.padding_for(runs.make_job("unused").config, tpu)
    plan = record_columns.plan_evaluation(
        columns.lengths, batch_size=B, padding=padding
    )

    training = bucketed_batches.training_dataset(
        columns,
        BucketedOrder(columns.lengths, batch_size=B, seed=0),
        InputShard(),
        padding=padding,
    )
    evaluation = bucketed_batches.evaluation_dataset(
        columns, plan, InputShard(), padding=padding
    )

    expected = _ROWS | _WEIGHTS | _LABELS
    assert training.element_spec == evaluation.element_spec == expected
    # The last one, too, of 3 records.
    assert [len(batch["input_ids"]) for batch in evaluation] == [B] * 3


def _call_python(values):
    return tf.numpy_function(lambda x: x, [values], tf.float32)


def _size_of_values(values):
    return tf.reduce_sum(tf.boolean_mask(values, values > 0))


def _complex(values):
    return tf.abs(tf.cast(values, tf.complex128))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (_size_of_values, "operation Where"),
        (_complex, "complex128 in Cast"),
        (lambda values: tf.timestamp(), "operation Timestamp"),
        (
            lambda values: tf.cond(
                values[0] > 0, lambda: _call_python(values), lambda: values
            ),
            "operation PyFunc",
        ),
    ],
)
def test_what_a_tpu_cannot_compile_is_found(function, expected):
    compiled = tf.function(function, jit_compile=True)

    assert expected in problems(compiled, [tf.TensorSpec([6], tf.float32)])
