"""The loss of a random depth is the mean of two: all layers, and fewer."""

import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling import random_depth
from albert_tf.tasks.classification.model import ClassificationTask
from albert_tf.tasks.encoder.model import SimilarityTask
from albert_tf.tasks.head_flags import HeadFlags
from albert_tf.tasks.pretraining.objectives import PretrainingTask
from albert_tf.tasks.race.model import MultipleChoiceTask
from albert_tf.tasks.squad.model import BeamSpanTask
from tests import tiny

CONFIG = tiny.config(num_hidden_layers=3, initializer_range=0.5)
HEAD = HeadFlags(dropout_prob=0.0)
RANDOM = np.random.default_rng(0)


def ids(*shape):
    values = RANDOM.integers(1, 11, shape).astype("int32")
    return {
        "input_ids": values,
        "input_mask": np.ones_like(values),
        "segment_ids": values % 2,
    }


def classification():
    labels = {"label_ids": np.array([0, 1, 2, 1], "int32")}
    task = ClassificationTask(CONFIG, num_labels=3, head=HEAD)
    return task, ids(4, 6) | labels


def multiple_choice():
    labels = {"label_ids": np.array([0, 1, 2, 1], "int32")}
    return MultipleChoiceTask(CONFIG, head=HEAD), ids(4, 3, 6) | labels


def cosent():
    data = types.SimpleNamespace(pooling="mean", normalizes=True)
    task = SimilarityTask(CONFIG, data=data, loss="cosent", temperature=0.05)
    return task, ids(4, 2, 6) | {"scores": np.arange(4, dtype="float32")}


def beam_span():
    positions = np.array([1, 2, 3, 1], "int32")
    batch = ids(4, 6) | {
        "p_mask": np.zeros((4, 6), "float32"),
        "start_positions": positions,
        "end_positions": positions + 1,
        "is_impossible": np.array([0, 1, 0, 0], "int32"),
    }
    return BeamSpanTask(CONFIG, dropout_prob=0.0), batch


def pretraining():
    batch = ids(4, 6) | {
        "masked_lm_positions": np.array([[1, 2]] * 4, "int32"),
        "masked_lm_ids": np.array([[3, 4]] * 4, "int32"),
        "masked_lm_weights": np.array([[1, 1], [1, 0]] * 2, "float32"),
        "sentence_order_labels": np.array([0, 1, 1, 0], "int32"),
    }
    return PretrainingTask(CONFIG), batch


@pytest.mark.parametrize(
    "make", [classification, multiple_choice, cosent, beam_span, pretraining]
)
def test_the_loss_is_the_mean_of_two_depths(make):
    task, batch = make()
    batch = {name: tf.constant(values) for name, values in batch.items()}
    denominators = task.loss_denominators(batch)

    def loss(seed, **options):
        seed = tf.constant([seed, 0])
        return task.loss(batch, denominators, seed=seed, **options)

    one, two, whole = (float(loss(0, depth=d)[0]) for d in (1, 2, 3))
    means = (one + whole) / 2, (two + whole) / 2
    found = set()
    for seed in range(8):
        value, totals = loss(seed, compute_outputs=random_depth.outputs)
        errors = np.abs(np.array(means) / float(value) - 1)
        assert errors.min() < 1e-5
        found.add(int(errors.argmin()))
        # What is logged is that of all layers.
        for name, total in loss(seed)[1].items():
            if name != "loss":
                assert float(totals[name]) == pytest.approx(float(total))
    assert found == {0, 1}
