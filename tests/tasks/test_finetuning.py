import functools
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.sequence_models import ClassifierModel
from albert_tf.tasks.classification.model import ClassificationTask
from albert_tf.tasks.race.model import MultipleChoiceTask
from albert_tf.tasks.squad.model import BeamSpanTask, SpanTask
from albert_tf.tasks.tagging.model import TaggingTask
from tests import tiny

LABELS = functools.partial(ClassificationTask, num_labels=3)
REGRESSION = functools.partial(ClassificationTask, num_labels=0)
# B = 2, S = 5, C = 3.
ROWS = {name: tf.constant(values) for name, values in tiny.batch().items()}
CHOICES = {name: tf.constant(values) for name, values in tiny.choices().items()}
SPANS = ROWS | {
    "end_positions": tf.constant([3, 0]),
    "is_impossible": tf.constant([0.0, 1.0]),
}


def measure(task, batch, seed=None):
    """Returns the loss, and the scores of the training log."""
    loss, totals = task.loss(batch, task.loss_denominators(batch), seed=seed)
    totals = {name: float(value) for name, value in totals.items()}
    return float(loss), task.training_scores(totals)


@pytest.mark.parametrize(
    ("make_task", "batch", "keys", "accuracy"),
    [
        (LABELS, ROWS, {"logits": [2, 0]}, "accuracy"),
        (MultipleChoiceTask, CHOICES, {"logits": [2, 0]}, "accuracy"),
        (
            SpanTask,
            SPANS,
            {"start_logits": [2, 0], "end_logits": [3, 0]},
            "span_accuracy",
        ),
    ],
)
def test_the_loss_is_the_mean_cross_entropy_of_the_rows(
    make_task, batch, keys, accuracy, tiny_config
):
    task = make_task(tiny_config)
    outputs = task.outputs(batch)
    assert set(outputs) == set(keys)
    expected, is_right = 0, np.ones(2, bool)
    for name, labels in keys.items():
        logits = outputs[name].numpy().astype(float)
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        expected -= log_probs[[0, 1], labels].mean() / len(keys)
        is_right &= logits.argmax(axis=1) == labels

    loss, scores = measure(task, batch | {"label_ids": tf.constant([2, 0])})

    assert loss == pytest.approx(expected, rel=1e-5)
    assert scores == {
        "loss": pytest.approx(expected, rel=1e-5),
        accuracy: is_right.mean(),
    }


def test_the_loss_of_a_regression_is_the_mean_squared_error(tiny_config):
    task = REGRESSION(tiny_config)
    labels = np.array([2.5, -1.0], np.float32)

    loss, scores = measure(task, ROWS | {"label_ids": tf.constant(labels)})

    numbers = task.outputs(ROWS)["logits"].numpy()
    expected = np.square(numbers[:, 0] - labels).mean()
    assert numbers.shape == (2, 1)
    assert loss == pytest.approx(expected, rel=1e-5)
    # Without an accuracy.
    assert scores == {"loss": pytest.approx(expected, rel=1e-5)}


def test_several_labels_have_the_mean_binary_cross_entropy(tiny_config):
    task = LABELS(tiny_config, multi_label=True)
    labels = np.array([[1, 0, 1], [0, 0, 0]], np.float32)
    logits = task.outputs(ROWS)["logits"].numpy().astype(float)

    loss, scores = measure(task, ROWS | {"label_ids": tf.constant(labels)})

    wanted = np.log1p(np.exp(-logits * (2 * labels - 1))).mean()
    assert loss == pytest.approx(wanted, rel=1e-5)
    assert scores["loss"] == pytest.approx(wanted, rel=1e-5)
    is_right = (logits > 0) == (labels == 1)
    assert scores["accuracy"] == pytest.approx(is_right.mean())


def test_class_weights_make_a_weighted_mean(tiny_config):
    batch = ROWS | {"label_ids": tf.constant([2, 0])}
    task = LABELS(tiny_config, class_weights=(0.5, 9.0, 4.0))
    logits = task.outputs(ROWS)["logits"].numpy().astype(float)
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    losses = -log_probs[[0, 1], [2, 0]]

    loss, scores = measure(task, batch)
    _, totals = task.loss(batch, task.loss_denominators(batch), seed=None)

    wanted = pytest.approx(np.average(losses, weights=[4, 0.5]), rel=1e-5)
    assert (loss, scores["loss"]) == (wanted, wanted)
    # The speed of a run counts rows.
    assert float(totals["examples"]) == 2
    # Rows that only pad a batch weigh nothing.
    padded = batch | {"example_weights": tf.constant([0.0, 1.0])}
    assert measure(task, padded)[0] == pytest.approx(losses[1], rel=1e-5)


def test_version_2_measures_answerability_too(tiny_config):
    task = BeamSpanTask(tiny_config)

    _, scores = measure(task, SPANS)

    logits = task.outputs(SPANS)["cls_logits"].numpy()
    assert set(scores) == {"loss", "span_accuracy", "answerable_accuracy"}
    is_right = (logits > 0) == [False, True]
    assert scores["answerable_accuracy"] == is_right.mean()


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
            ClassifierModel,
            "__call__",
            lambda *_, x=logits, **__: {"logits": tf.constant(x)},
        )

        _, scores = measure(
            task,
            {
                "input_mask": tf.ones([200, 1], tf.int32),
                "label_ids": tf.constant(inputs[f"{kind}/label_ids"]),
                "example_weights": tf.constant(weights),
            },
        )

        assert scores["loss"] == pytest.approx(wanted["eval_loss"], rel=1e-5)
        if "eval_accuracy" in wanted:
            assert scores["accuracy"] == pytest.approx(
                wanted["eval_accuracy"], rel=1e-6
            )
    assert len(recorded) == 10


def test_a_batch_may_have_any_number_of_choices(tiny_config):
    task = MultipleChoiceTask(tiny_config)
    two = {name: value[:, :2] for name, value in CHOICES.items()}

    # The score of a choice does not depend on the others.
    np.testing.assert_allclose(
        task.outputs(two)["logits"],
        task.outputs(CHOICES)["logits"][:, :2],
        rtol=1e-5,
        atol=1e-6,
    )


def test_words_of_short_texts_count_as_much_as_others(tiny_config):
    # The first row has more words than the mean, the second fewer.
    task = TaggingTask(tiny_config, num_labels=3, words_per_record=2.5)
    tags = np.array([[-1, 2, 0, 1, -1], [-1, 1, -1, -1, -1]])
    batch = ROWS | {"tag_ids": tf.constant(tags)}
    logits = task.outputs(batch)["logits"].numpy().astype(float)
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    rows, places = np.nonzero(tags >= 0)
    expected = -log_probs[rows, places, tags[rows, places]].sum() / 5

    loss, scores = measure(task, batch)
    parts = [
        {name: values[i : i + 1] for name, values in batch.items()}
        for i in range(2)
    ]
    shares = [
        float(task.loss(part, task.loss_denominators(batch), seed=None)[0])
        for part in parts
    ]

    assert loss == pytest.approx(expected, rel=1e-5)
    assert sum(shares) == pytest.approx(loss, rel=1e-5)
    # The log has the mean over the words.
    assert scores["loss"] == pytest.approx(loss * 5 / 4, rel=1e-5)
    is_right = logits[rows, places].argmax(axis=-1) == tags[rows, places]
    assert scores["accuracy"] == pytest.approx(is_right.mean())
