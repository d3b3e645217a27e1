import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load
from albert_tf.config import AlbertConfig
from albert_tf.tasks.classification.task import ClassificationTask

TINY = AlbertConfig(
    vocab_size=11,
    embedding_size=4,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=6,
    max_position_embeddings=5,
    hidden_dropout_prob=0.5,
)
INPUTS = {
    "input_ids": tf.constant([[2, 4, 6, 3, 0], [2, 7, 4, 8, 3]]),
    "input_mask": tf.constant([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]),
    "segment_ids": tf.constant([[0, 0, 0, 0, 0], [0, 0, 1, 1, 1]]),
}
LABELS = {
    3: tf.constant([2, 0]),
    0: tf.constant([2.5, -1.0]),
}
SEED = tf.constant([1, 2])


@pytest.fixture(params=[3, 0], ids=["labels", "regression"])
def case(request):
    """A task, its batch, and the loss of each example by NumPy."""
    task = ClassificationTask(TINY, num_labels=request.param)
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
    loss, sums = task.loss(batch, task.loss_denominators(batch), seed=None)
    values = {name: float(value) for name, value in sums.items()}
    return float(loss), values, task.evaluation_scores(values)


def test_outputs_are_one_logit_for_each_label_or_one_number(case):
    task, batch, _ = case

    logits = task.outputs(batch)["logits"]

    assert logits.shape == (2, 1 if task.is_regression else 3)
    assert logits.dtype == tf.float32


def test_the_loss_is_the_mean_over_the_examples(case):
    task, batch, losses = case

    loss, sums, scores = evaluate(task, batch)

    assert loss == pytest.approx(losses.mean(), rel=1e-5)
    assert scores["loss"] == pytest.approx(losses.mean(), rel=1e-5)
    assert sums.keys() == set(task.total_names)
    assert (sums["examples"], sums["tokens"]) == (2, 9)


def test_only_labels_have_an_accuracy(case):
    task, batch, _ = case

    _, _, scores = evaluate(task, batch)

    if task.is_regression:
        assert scores.keys() == {"loss"}
    else:
        predictions = task.outputs(batch)["logits"].numpy().argmax(axis=1)
        assert scores["accuracy"] == np.mean(predictions == [2, 0])


def test_rows_that_fill_up_a_batch_count_nowhere(case):
    task, batch, losses = case
    batch = batch | {"example_weights": tf.constant([0.0, 1.0])}

    loss, sums, _ = evaluate(task, batch)

    assert loss == pytest.approx(losses[1], rel=1e-5)
    assert (sums["examples"], sums["tokens"]) == (1, 5)


def test_parts_of_a_batch_add_up_to_its_loss(case):
    task, batch, losses = case
    loss_denominators = task.loss_denominators(batch)
    rows = [{k: v[i : i + 1] for k, v in batch.items()} for i in range(2)]

    parts = [float(task.loss(r, loss_denominators, seed=None)[0]) for r in rows]

    assert sum(parts) == pytest.approx(losses.mean(), rel=1e-5)


def test_dropout_needs_a_seed_and_follows_it(case):
    task, batch, losses = case
    loss_denominators = task.loss_denominators(batch)

    first, again, other = (
        float(task.loss(batch, loss_denominators, seed=seed)[0])
        for seed in (SEED, SEED, SEED + 1)
    )

    assert first == again
    assert first != other
    assert first != pytest.approx(losses.mean(), rel=1e-5)


def test_every_weight_gets_a_gradient(case):
    task, batch, _ = case

    with tf.GradientTape() as tape:
        loss, _ = task.loss(batch, task.loss_denominators(batch), seed=None)
    variables = [v.value for v in task.model.trainable_variables]
    gradients = tape.gradient(loss, variables)

    assert len(variables) > 10
    assert all(gradient is not None for gradient in gradients)


def test_the_seed_decides_the_first_weights():
    first, again, other = (
        ClassificationTask(TINY, num_labels=2, seed=seed).outputs(INPUTS)
        for seed in (1, 1, 2)
    )

    np.testing.assert_array_equal(first["logits"], again["logits"])
    assert np.abs(first["logits"] - other["logits"]).max() > 1e-4


def test_half_precision_gives_logits_in_float32():
    task = ClassificationTask(TINY, num_labels=2, dtype="mixed_bfloat16")

    assert task.outputs(INPUTS)["logits"].dtype == tf.float32


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


def test_evaluation_losses_equal_the_recorded_ones(shared_data, monkeypatch):
    folder = shared_data / "golden" / "glue"
    inputs = np.load(folder / "metrics_inputs.npz")
    recorded = json.loads((folder / "metrics.json").read_text())

    for case, wanted in recorded.items():
        kind, _, rest = case.partition("/")
        logits = inputs[f"{kind}/logits"].reshape([200, -1])
        num_outputs = logits.shape[1]
        task = ClassificationTask(
            TINY, num_labels=num_outputs if num_outputs > 1 else 0
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
