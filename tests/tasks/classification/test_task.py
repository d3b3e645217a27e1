import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load
from albert_tf.config import AlbertConfig
from albert_tf.tasks.classification.task import ClassificationTask

INPUTS = {
    "input_ids": tf.constant([[2, 4, 6, 3, 0], [2, 7, 4, 8, 3]]),
    "input_mask": tf.constant([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]),
    "segment_ids": tf.constant([[0, 0, 0, 0, 0], [0, 0, 1, 1, 1]]),
}
LABELS = {
    3: tf.constant([2, 0]),
    0: tf.constant([2.5, -1.0]),
}


@pytest.fixture(params=[3, 0], ids=["labels", "regression"])
def case(request, tiny_config):
    """A task, its batch, and the loss of each example by NumPy."""
    task = ClassificationTask(tiny_config, num_labels=request.param)
    batch = INPUTS | {"label_ids": LABELS[request.param]}
    logits = task.outputs(batch)["logits"].numpy().astype(np.float64)
    labels = batch["label_ids"].numpy()
    if request.param:
        scores = np.log(np.exp(logits).sum(axis=1))
        losses = scores - logits[[0, 1], labels]
    else:
        losses = np.square(logits[:, 0] - labels)
    return task, batch, losses


def evaluate(task, batch):
    loss, totals = task.loss(batch, task.loss_denominators(batch), seed=None)
    values = {name: float(value) for name, value in totals.items()}
    return float(loss), values, task.evaluation_scores(values)


def test_outputs_are_one_logit_for_each_label_or_one_number(case):
    task, batch, _ = case

    logits = task.outputs(batch)["logits"]

    assert logits.shape == (2, 1 if task.is_regression else 3)
    assert logits.dtype == tf.float32


def test_the_loss_is_the_mean_over_the_examples(case):
    task, batch, losses = case

    loss, totals, scores = evaluate(task, batch)

    assert loss == pytest.approx(losses.mean(), rel=1e-5)
    assert scores["loss"] == pytest.approx(losses.mean(), rel=1e-5)
    assert (totals["examples"], totals["tokens"]) == (2, 9)


def test_only_labels_have_an_accuracy(case):
    task, batch, _ = case

    _, _, scores = evaluate(task, batch)

    if task.is_regression:
        assert scores.keys() == {"loss"}
    else:
        predictions = task.outputs(batch)["logits"].numpy().argmax(axis=1)
        assert scores["accuracy"] == np.mean(predictions == [2, 0])


@pytest.mark.parametrize(
    ("name", "num_labels"), [("classifier", 3), ("regression", 0)]
)
def test_losses_and_gradients_equal_the_recorded_ones(
    name, num_labels, shared_data
):
    folder = shared_data / "golden" / "model_base"
    config = AlbertConfig.from_json_file(folder / "albert_config.json")
    task = ClassificationTask(config, num_labels=num_labels)
    load.load_checkpoint(task.model, folder, allow_new_heads=True)
    recorded = dict(np.load(folder.parent / "heads" / f"{name}.npz"))
    parts = ["output_weights", "output_bias"]
    by_name = {v.name: v for v in task.model.trainable_variables}
    variables = [by_name[part] for part in parts]
    for part, variable in zip(parts, variables, strict=True):
        variable.assign(recorded[f"var/{part}"])
    fields = ("input_ids", "input_mask", "segment_ids", "label_ids")
    batch = {field: tf.constant(recorded[field]) for field in fields}

    with tf.GradientTape() as tape:
        loss, _ = task.loss(batch, task.loss_denominators(batch), seed=None)
    gradients = tape.gradient(loss, [v.value for v in variables])

    assert float(loss) == pytest.approx(float(recorded["loss"]), rel=1e-5)
    logits = task.outputs(batch)["logits"].numpy()
    wanted = recorded["logits"].reshape(logits.shape)
    np.testing.assert_allclose(logits, wanted, rtol=1e-5, atol=1e-6)
    for part, gradient in zip(parts, gradients, strict=True):
        wanted = recorded[f"grad/{part}"]
        np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-6)


def test_evaluation_losses_equal_the_recorded_ones(
    shared_data, monkeypatch, tiny_config
):
    folder = shared_data / "golden" / "glue"
    inputs = np.load(folder / "metrics_inputs.npz")
    recorded = json.loads((folder / "metrics.json").read_text())

    for case, wanted in recorded.items():
        kind, _, rest = case.partition("/")
        logits = inputs[f"{kind}/logits"].reshape([200, -1])
        num_outputs = logits.shape[1]
        task = ClassificationTask(
            tiny_config, num_labels=num_outputs if num_outputs > 1 else 0
        )
        weights = np.ones(200, np.float32)
        weights[200 - 13 :] -= rest == "with_13_padding_rows"
        monkeypatch.setattr(
            task, "model", lambda *_, x=logits, **__: {"logits": tf.constant(x)}
        )
        batch = {
            "input_mask": tf.ones([200, 1], tf.int32),
            "label_ids": tf.constant(inputs[f"{kind}/label_ids"]),
            "example_weights": tf.constant(weights),
        }

        _, _, scores = evaluate(task, batch)

        assert scores["loss"] == pytest.approx(wanted["eval_loss"], rel=1e-5)
        if "eval_accuracy" in wanted:
            assert scores["accuracy"] == pytest.approx(
                wanted["eval_accuracy"], rel=1e-6
            )
    assert len(recorded) == 10
