import dataclasses
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.devices import engine
from albert_tf.tasks import early_exit
from albert_tf.tasks.classification.model import ClassificationTask
from albert_tf.tasks.head_flags import HeadFlags
from albert_tf.tasks.race.model import MultipleChoiceTask
from tests import tiny

# Predictions of three examples after each of six layers.
PREDICTIONS = np.array(
    [[0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 1, 1], [2, 1, 2, 1, 2, 1]]
)


def run(patience, num_choices=1):
    """Runs layers that give the predictions; records the batch of each."""
    batches = []

    def block(hidden, mask):
        batches.append(mask.numpy().ravel().tolist())
        # The example and the number of the layer.
        return hidden + tf.constant([0.0, 1.0])

    def classify(hidden):
        example, layer = tf.unstack(hidden[::num_choices, 0].numpy(), axis=1)
        found = PREDICTIONS[
            example.numpy().astype(int), layer.numpy().astype(int) - 1
        ]
        return tf.one_hot(found, 3) * layer[:, None]

    examples = np.repeat(np.arange(3), num_choices)
    hidden = np.stack([examples, examples * 0], 1)[:, None]
    outputs = early_exit.run(
        [block] * 6,
        classify,
        tf.constant(hidden, tf.float32),
        tf.constant(examples[:, None, None, None], tf.int32),
        patience=patience,
        num_choices=num_choices,
    )
    return batches, {name: value.numpy() for name, value in outputs.items()}


@pytest.mark.parametrize(
    ("patience", "num_layers", "predictions"),
    [
        # The layers at which a prediction is that of 1, 2 ... layers before.
        (1, [2, 5, 6], [0, 1, 1]),
        (2, [3, 6, 6], [0, 1, 1]),
        (3, [6, 6, 6], [1, 1, 1]),
        (5, [6, 6, 6], [1, 1, 1]),
    ],
)
def test_an_example_leaves_once_its_prediction_stays_the_same(
    patience, num_layers, predictions
):
    _, outputs = run(patience)

    assert outputs["num_layers"].tolist() == num_layers
    assert outputs["logits"].argmax(1).tolist() == predictions
    # The logits are those of the layer at which it leaves.
    assert outputs["logits"].max(1).tolist() == num_layers


@pytest.mark.parametrize("num_choices", [1, 2])
def test_layers_compute_the_examples_that_are_left(num_choices):
    batches, _ = run(1, num_choices)

    examples = [[0, 1, 2], [0, 1, 2], [1, 2], [1, 2], [1, 2], [2]]
    assert batches == [np.repeat(row, num_choices).tolist() for row in examples]


CONFIG = tiny.config(num_hidden_layers=5, initializer_range=0.3)
IDS = np.random.default_rng(0).integers(1, 11, (12, 6)).astype(np.int32)
BATCH = {
    "input_ids": tf.constant(IDS),
    "input_mask": tf.constant((np.arange(6) < 4) * np.ones_like(IDS)),
    "segment_ids": tf.constant(IDS % 2),
}
CHOICES = {name: tf.reshape(ids, [4, 3, 6]) for name, ids in BATCH.items()}


def classification(**head):
    return ClassificationTask(CONFIG, num_labels=3, head=HeadFlags(**head))


def test_a_layer_of_two_blocks_is_one_layer(monkeypatch):
    config = dataclasses.replace(CONFIG, inner_group_num=2)
    monkeypatch.setattr(sys.modules[__name__], "CONFIG", config)
    task = classification(exit_patience=1)

    found = task.final_outputs(BATCH)

    for row, number in enumerate(found["num_layers"].numpy().tolist()):
        expected = shallow_task(task, number).outputs(BATCH)["logits"][row]
        np.testing.assert_allclose(found["logits"][row], expected, atol=1e-6)


def multiple_choice(**head):
    return MultipleChoiceTask(CONFIG, head=HeadFlags(**head))


@pytest.mark.parametrize(
    ("make_task", "batch"),
    [(classification, BATCH), (multiple_choice, CHOICES)],
)
def test_the_longest_patience_gives_what_all_layers_give(
    make_task, batch, monkeypatch
):
    config = dataclasses.replace(CONFIG, attention_window=2)
    monkeypatch.setattr(sys.modules[__name__], "CONFIG", config)
    task = make_task(exit_patience=5)

    compute = engine.compiled(task.final_outputs, task.model, batch)
    found = compute(batch)

    np.testing.assert_allclose(
        found["logits"], task.outputs(batch)["logits"], atol=1e-6
    )
    assert found["num_layers"].tolist() == [5] * len(found["logits"])


@pytest.mark.parametrize(
    ("make_task", "batch"),
    [(classification, BATCH), (multiple_choice, CHOICES)],
)
def test_logits_are_those_of_a_model_of_fewer_layers(make_task, batch):
    task = make_task(exit_patience=1)

    found = task.final_outputs(batch)

    numbers = found["num_layers"].numpy()
    assert {*numbers} <= {2, 3, 4, 5}
    assert min(numbers) < 5
    for row, number in enumerate(numbers.tolist()):
        expected = shallow_task(task, number).outputs(batch)["logits"][row]
        np.testing.assert_allclose(found["logits"][row], expected, atol=1e-6)


def shallow_task(task, depth):
    """The task with its first layers alone."""
    labels = {"num_labels": 3} if type(task) is ClassificationTask else {}
    shallow = type(task)(
        dataclasses.replace(CONFIG, num_hidden_layers=depth), **labels
    )
    shallow.model.set_weights(task.model.get_weights())
    return shallow
