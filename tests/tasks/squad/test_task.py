import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load, variable_names
from albert_tf.config import AlbertConfig
from albert_tf.tasks.squad.task import BeamSpanTask, SpanTask

# B = 2, S = 6.
BATCH = {
    "input_ids": tf.constant([[2, 5, 3, 6, 7, 3], [2, 4, 3, 8, 3, 0]]),
    "input_mask": tf.constant([[1] * 6, [1] * 5 + [0]]),
    "segment_ids": tf.constant([[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0]]),
    "p_mask": tf.constant([[0.0, 1, 1, 0, 0, 1], [0.0, 1, 1, 0, 1, 1]]),
    "start_positions": tf.constant([3, 0]),
    "end_positions": tf.constant([4, 0]),
    "is_impossible": tf.constant([0.0, 1.0]),
}


def loss_of(task, batch=BATCH, seed=None):
    loss, totals = task.loss(batch, task.loss_denominators(batch), seed=seed)
    return float(loss), {name: float(value) for name, value in totals.items()}


def test_the_loss_of_version_1_is_the_mean_of_both_ends(tiny_config):
    task = SpanTask(tiny_config)

    loss, totals = loss_of(task)

    expected, is_right = 0, np.ones(2, bool)
    for name in ("start", "end"):
        logits = task.outputs(BATCH)[f"{name}_logits"].numpy().astype(float)
        labels = BATCH[f"{name}_positions"].numpy()
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        expected -= log_probs[[0, 1], labels].mean() / 2
        is_right &= logits.argmax(axis=1) == labels
    assert loss == pytest.approx(expected, rel=1e-5)
    assert task.training_scores(totals) == {
        "loss": pytest.approx(expected, rel=1e-5),
        "span_accuracy": is_right.mean(),
    }


def test_version_2_measures_answerability_too(tiny_config):
    task = BeamSpanTask(tiny_config)

    _, totals = loss_of(task)

    logits = task.outputs(BATCH)["cls_logits"].numpy()
    scores = task.evaluation_scores(totals)
    assert set(scores) == {"loss", "span_accuracy", "answerable_accuracy"}
    is_right = (logits > 0) == [False, True]
    assert scores["answerable_accuracy"] == is_right.mean()


@pytest.mark.parametrize(
    ("name", "make_task", "prefix", "loss_key"),
    [
        ("v1", SpanTask, "", "loss"),
        (
            "v2",
            lambda config: BeamSpanTask(config, dropout_prob=0),
            "inference/",
            "train/loss",
        ),
    ],
)
def test_outputs_and_loss_equal_the_recorded_ones(
    name, make_task, prefix, loss_key, shared_data
):
    folder = shared_data / "golden" / "model_base"
    arrays = np.load(shared_data / "golden" / "heads" / f"squad_{name}.npz")
    config = AlbertConfig.from_json_file(folder / "albert_config.json")
    task = make_task(config)
    load.load_checkpoint(task.model, folder, allow_new_heads=True)
    variables = variable_names.variables_by_tf1_name(task.model.weights)
    for key in arrays.files:
        if key.startswith("var/"):
            variables[key.removeprefix("var/")].assign(arrays[key])
    batch = {
        key: tf.constant(arrays[key]) for key in arrays.files if key in BATCH
    }

    loss, _ = loss_of(task, batch)

    assert loss == pytest.approx(float(arrays[loss_key]), rel=1e-5)
    for key, values in task.outputs(batch).items():
        wanted = arrays[prefix + key]
        np.testing.assert_allclose(
            values, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max()
        )


def test_dropout_before_the_score_of_no_answer_can_be_set(tiny_config):
    config = dataclasses.replace(tiny_config, hidden_dropout_prob=0)

    losses = [
        loss_of(
            BeamSpanTask(config, dropout_prob=dropout_prob),
            seed=tf.constant([1, 2]),
        )[0]
        for dropout_prob in (0.0, 0.5)
    ]

    assert losses[0] != losses[1]


def test_outputs_of_version_2_are_beams(tiny_config):
    task = BeamSpanTask(tiny_config, start_n_top=3, end_n_top=2)

    outputs = task.outputs(BATCH)

    assert {name: tuple(v.shape) for name, v in outputs.items()} == {
        "start_top_log_probs": (2, 3),
        "start_top_index": (2, 3),
        "end_top_log_probs": (2, 6),
        "end_top_index": (2, 6),
        "cls_logits": (2,),
    }
    assert outputs["start_top_index"].dtype == tf.int32


def test_short_batches_are_padded_to_the_beam_size(tiny_config):
    wide = BeamSpanTask(tiny_config, start_n_top=9, end_n_top=2)
    narrow = BeamSpanTask(tiny_config, start_n_top=3, end_n_top=2)
    outputs_of = tf.function(wide.outputs)

    found, wanted = outputs_of(BATCH), narrow.outputs(BATCH)

    assert found["start_top_index"].shape == (2, 9)
    # [CLS] and the two tokens of the first context; the rest is forbidden.
    np.testing.assert_array_equal(
        found["start_top_index"][0, :3], wanted["start_top_index"][0]
    )
    np.testing.assert_allclose(
        found["cls_logits"], wanted["cls_logits"], rtol=1e-5, atol=1e-6
    )
    assert np.all(found["start_top_log_probs"][0, 3:] < -1e29)
