"""Sequences that share rows have the vectors of those that do not."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling import packing
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.packing import PackedRows
from albert_tf.modeling.sequence_models import ClassifierModel
from tests import tiny

# Rows: 1 0 0 3 3; 2 2 2 2, and a slot without a token.
_PACKED_AT = np.array([1, 0, 5, 3], "int32")
_LENGTHS = np.array([2, 1, 4, 2])[:, None]


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    is_token = (np.arange(5) < _LENGTHS).astype("int32")
    return {
        "input_ids": rng.integers(1, tiny.VOCAB_SIZE, (4, 5), "int32"),
        "input_mask": is_token,
        "segment_ids": rng.integers(0, 2, (4, 5), "int32"),
    }


def test_rows_hold_the_tokens_with_their_positions(batch):
    rows = PackedRows(_PACKED_AT, batch["input_mask"])

    ids = batch["input_ids"]
    packed = [[ids[1, 0], *ids[0, :2], *ids[3, :2]], [*ids[2, :4], 0]]
    np.testing.assert_array_equal(rows.pack(ids), packed)
    np.testing.assert_array_equal(
        rows.position_ids, [[0, 0, 1, 0, 1], [0, 1, 2, 3, 0]]
    )
    owner = np.array([[1, 0, 0, 3, 3], [2, 2, 2, 2, -1]])
    mask = owner[:, None, :, None] == owner[:, None, None, :]
    np.testing.assert_array_equal(rows.attention_mask, mask)


def test_vectors_are_those_of_rows_of_their_own(batch):
    model = AlbertModel(tiny.config(), output_hidden_states=True)
    is_token = batch["input_mask"][..., None]

    alone = model(batch)
    together = model(batch | {"packed_at": _PACKED_AT}, encode=packing.encode)

    assert together.keys() == alone.keys()
    for name in ("sequence_output", "embedding_output"):
        alone[name] *= is_token
        together[name] *= is_token
    for outputs in (alone, together):
        hidden_states = outputs["hidden_states"]
        outputs["hidden_states"] = [one * is_token for one in hidden_states]
    keras.tree.map_structure(
        lambda one, other: np.testing.assert_allclose(one, other, atol=1e-5),
        together,
        alone,
    )


@pytest.mark.parametrize("run", [lambda f: f, tf.function], ids=["", "graph"])
def test_gradients_are_those_of_rows_of_their_own(run, batch):
    model = ClassifierModel(tiny.config(), num_labels=3)
    variables = [v.value for v in model.trainable_variables]

    @run
    def gradients(inputs, encode=None):
        with tf.GradientTape() as tape:
            logits = model(inputs, encode=encode)["logits"]
            loss = tf.reduce_sum(logits**2)
        return [
            tf.convert_to_tensor(gradient)
            for gradient in tape.gradient(loss, variables)
        ]

    alone = gradients(batch)
    together = gradients(
        batch | {"packed_at": _PACKED_AT}, encode=packing.encode
    )

    largest = max(np.abs(gradient).max() for gradient in alone)
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6 * largest)
