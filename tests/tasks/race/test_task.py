import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load, variable_names
from albert_tf.config import AlbertConfig
from albert_tf.tasks.race.task import MultipleChoiceTask

# B = 2, C = 3, S = 5.
BATCH = {
    "input_ids": tf.constant(
        [
            [[2, 4, 3, 6, 3], [2, 4, 3, 7, 3], [2, 4, 3, 8, 3]],
            [[2, 5, 3, 3, 0], [2, 5, 3, 9, 3], [2, 5, 3, 6, 3]],
        ]
    ),
    "input_mask": tf.constant(
        [
            [[1, 1, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1]],
            [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1]],
        ]
    ),
    "segment_ids": tf.constant([[[0, 0, 0, 1, 1]] * 3] * 2),
    "label_ids": tf.constant([2, 0]),
}


def loss_of(task, batch=BATCH, seed=None):
    loss, totals = task.loss(batch, task.loss_denominators(batch), seed=seed)
    return float(loss), {name: float(value) for name, value in totals.items()}


def test_the_loss_is_the_mean_cross_entropy_of_the_right_choices(tiny_config):
    task = MultipleChoiceTask(tiny_config)

    loss, totals = loss_of(task)

    logits = task.outputs(BATCH)["logits"].numpy().astype(float)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    assert logits.shape == (2, 3)
    assert loss == pytest.approx(-(logits[0, 2] + logits[1, 0]) / 2)
    num_correct = (logits.argmax(axis=1) == [2, 0]).sum()
    scores = {"loss": pytest.approx(loss), "accuracy": num_correct / 2}
    assert task.training_scores(totals) == scores
    assert task.evaluation_scores(totals) == scores


def test_logits_and_loss_equal_the_recorded_ones(shared_data):
    golden = shared_data / "golden"
    folder = golden / "model_base"
    arrays = np.load(golden / "heads" / "race.npz")
    task = MultipleChoiceTask(
        AlbertConfig.from_json_file(folder / "albert_config.json")
    )
    load.load_checkpoint(task.model, folder, allow_new_heads=True)
    variables = variable_names.variables_by_tf1_name(task.model.weights)
    for name in ("output_weights", "output_bias"):
        variables[name].assign(arrays[f"var/{name}"])
    batch = {
        name: tf.reshape(tf.constant(arrays[name]), [2, 4, 24])
        for name in ("input_ids", "input_mask", "segment_ids")
    } | {"label_ids": tf.constant(arrays["label_ids"])}

    loss, _ = loss_of(task, batch)

    np.testing.assert_allclose(
        task.outputs(batch)["logits"], arrays["logits"], rtol=1e-5, atol=1e-6
    )
    assert loss == pytest.approx(float(arrays["loss"]), rel=1e-5)


def test_a_batch_may_have_any_number_of_choices(tiny_config):
    task = MultipleChoiceTask(tiny_config)
    two = {
        name: value[:, :2] if name != "label_ids" else tf.constant([1, 0])
        for name, value in BATCH.items()
    }

    # The score of a choice does not depend on the others.
    np.testing.assert_allclose(
        task.outputs(two)["logits"],
        task.outputs(BATCH)["logits"][:, :2],
        rtol=1e-5,
        atol=1e-6,
    )


def test_dropout_of_the_pooled_output_can_be_set(tiny_config):
    config = dataclasses.replace(tiny_config, hidden_dropout_prob=0)

    losses = [
        loss_of(
            MultipleChoiceTask(config, dropout_prob=dropout_prob),
            seed=tf.constant([1, 2]),
        )[0]
        for dropout_prob in (0.0, 0.5)
    ]

    assert losses[0] != losses[1]
