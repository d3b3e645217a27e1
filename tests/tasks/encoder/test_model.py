"""The losses of pairs: their values, their negatives, several replicas."""

import dataclasses
import types

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.modeling import random_depth
from albert_tf.tasks.encoder import model
from albert_tf.tasks.encoder.data import SimilarityData
from albert_tf.tasks.encoder.model import SimilarityTask
from tests import tiny

CONFIG = tiny.config(num_hidden_layers=1, max_position_embeddings=8)
TOKENIZER = types.SimpleNamespace(special_ids=types.SimpleNamespace(pad=0))
# B = 4, C = 3, S = 6.
RNG = np.random.default_rng(0)
BATCH = {
    "input_ids": RNG.integers(4, 13, (4, 3, 6), dtype="int32"),
    "input_mask": (np.arange(6) < RNG.integers(2, 7, (4, 3, 1))).astype(
        "int32"
    ),
    "segment_ids": np.zeros((4, 3, 6), "int32"),
    "text_hashes": np.arange(12, dtype="int32").reshape(4, 3),
    "scores": np.array([0.2, 1.0, 0.2, 0.5], "float32"),
}
LOSSES = ("cosent", "cosine", "softmax")


def make_task(loss="softmax", config=CONFIG):
    data = SimilarityData(
        tokenizer=TOKENIZER, max_seq_length=8, has_scores=loss != "softmax"
    )
    return SimilarityTask(config, data=data, loss=loss, temperature=0.1)


def loss_of(task, rows=BATCH):
    batch = {name: tf.constant(value) for name, value in rows.items()}
    return task.loss(batch, task.loss_denominators(batch), seed=None)


def unit_vectors(task, rows=BATCH):
    batch = {name: tf.constant(value) for name, value in rows.items()}
    found = task.outputs(batch)["vectors"].numpy().astype(float)
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def test_vectors_are_those_of_each_text_alone():
    task = make_task()

    found = task.outputs(BATCH)["vectors"]

    rows = {n: BATCH[n].reshape(12, 6) for n in task.model.input_specs()}
    encoder = albert_tf.AlbertModel(CONFIG)
    encoder.set_weights(task.model.get_weights())
    hidden = encoder(rows)["sequence_output"].numpy()
    mask = rows["input_mask"][:, :, None]
    expected = (hidden * mask).sum(1) / mask.sum(1)
    expected /= np.linalg.norm(expected, axis=-1, keepdims=True)
    np.testing.assert_allclose(
        found, expected.reshape(4, 3, 8), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_are_those_of_their_formulas(loss):
    task = make_task(loss)
    vectors, scores = unit_vectors(task), BATCH["scores"]
    cosines = (vectors[:, 0] * vectors[:, 1]).sum(-1)
    candidates = np.concatenate([vectors[:, 1], vectors[:, 2]])
    exponents = np.exp(vectors[:, 0] @ candidates.T / 0.1)
    expected = {
        "cosent": np.log(
            1
            + sum(
                np.exp((cosines[i] - cosines[j]) / 0.1)
                for i in range(4)
                for j in range(4)
                if scores[i] < scores[j]
            )
        ),
        "cosine": np.mean((cosines - scores) ** 2),
        "softmax": np.mean(
            np.log(exponents.sum(1) / exponents[range(4), range(4)])
        ),
    }

    found, totals = loss_of(task)

    assert float(found) == pytest.approx(expected[loss], rel=1e-5)
    assert float(totals["tokens"]) == BATCH["input_mask"].sum()
    assert ("accuracy" in task.accuracies.values()) == (loss == "softmax")


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_that_pad_a_batch_are_no_pairs_and_no_negatives(loss):
    task = make_task(loss)
    first = {name: value[:3] for name, value in BATCH.items()}
    weights = np.array([1, 1, 1, 0], "float32")

    expected, _ = loss_of(task, first)
    found, totals = loss_of(task, BATCH | {"example_weights": weights})

    assert float(found) == pytest.approx(float(expected), rel=1e-5)
    assert float(totals["examples"]) == 3


@pytest.mark.parametrize("loss", ["cosent", "softmax"])
def test_a_row_alone_has_no_others_to_be_compared_with(loss):
    first = {name: value[:1] for name, value in BATCH.items()}

    with pytest.raises(
        ValueError, match="this batch has one row. Pass a larger"
    ):
        loss_of(make_task(loss), first)


@pytest.mark.parametrize(
    ("hashes", "left_out"),
    [
        # The second text of rows 0 and 1 is equal, the first of rows 2 and 3.
        (
            [[1, 5], [2, 5], [3, 6], [3, 7]],
            [(0, 1), (1, 0), (2, 3), (3, 2)],
        ),
        # Pairs in both directions: the text itself.
        (
            [[1, 2], [2, 1], [3, 4], [4, 3]],
            [(0, 1), (1, 0), (2, 3), (3, 2)],
        ),
        # Empty third texts, and a third text that is a first text.
        (
            [[1, 5, 0], [2, 6, 9], [3, 7, 0], [4, 8, 3]],
            [*((i, j) for i in range(4) for j in (4, 6)), (2, 7)],
        ),
    ],
)
def test_texts_that_are_not_wrong_are_no_negatives(hashes, left_out):
    vectors = tf.math.l2_normalize(
        tf.constant(tiny.floats(4, len(hashes[0]), 8)), -1
    )

    found = model.in_batch_sums(vectors, tf.constant(hashes), tf.ones(4), 0.1)

    candidates = np.concatenate([*np.swapaxes(vectors, 0, 1)[1:]])
    exponents = np.exp(vectors[:, 0] @ candidates.T / 0.1)
    for place in left_out:
        exponents[place] = 0
    own = exponents[range(4), range(4)]
    assert float(found.loss) == pytest.approx(
        np.log(exponents.sum(1) / own).sum(), rel=1e-5
    )


def gradients(task, batch, denominators, **options):
    with tf.GradientTape() as tape:
        loss, _ = task.loss(batch, denominators, **options)
    variables = [v.value for v in task.model.trainable_variables]
    found = tape.gradient(loss, variables)
    return loss, [tf.convert_to_tensor(g) for g in found if g is not None]


@pytest.mark.parametrize(
    ("loss", "options"),
    [
        *((loss, {}) for loss in LOSSES),
        # Replicas have seeds of their own, but one depth.
        ("softmax", {"compute_outputs": random_depth.outputs}),
    ],
)
def test_two_replicas_give_loss_and_gradients_of_one(
    loss, options, two_replicas
):
    batch = {name: tf.constant(value) for name, value in BATCH.items()}
    denominators = {"weights": tf.constant(4.0)}
    config = dataclasses.replace(CONFIG, num_hidden_layers=7)
    seeds = tf.constant([[1, 2], [3, 4]])
    task = make_task(loss, config)
    expected = gradients(task, batch, denominators, seed=seeds[0], **options)
    with two_replicas.scope():
        divided = make_task(loss, config)
    divided.model.set_weights(task.model.get_weights())

    @tf.function(autograph=False)
    def run(own):
        def on_replica(own):
            context = tf.distribute.get_replica_context()
            seed = seeds[context.replica_id_in_sync_group]
            found = gradients(divided, own, denominators, seed=seed, **options)
            flat = tf.nest.flatten(found)
            return context.all_reduce(tf.distribute.ReduceOp.SUM, flat)

        return two_replicas.run(on_replica, args=(own,))

    halves = two_replicas.experimental_distribute_values_from_function(
        lambda context: {
            name: value[2 * context.replica_id_in_sync_group :][:2]
            for name, value in batch.items()
        }
    )
    found = [
        two_replicas.experimental_local_results(one)[0] for one in run(halves)
    ]

    for one, other in zip(found, tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
