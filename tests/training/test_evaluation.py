"""Scores and outputs come in the order of the records, on any devices."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load
from albert_tf.config import AlbertConfig
from albert_tf.data import feature_cache
from albert_tf.data.bucketed_batches import Padding
from albert_tf.tasks.pretraining import PretrainingTask
from albert_tf.training import distribution, evaluation
from tests.training import runs

S = 16
SCORES = (
    "masked_lm_loss",
    "masked_lm_accuracy",
    "sentence_order_loss",
    "sentence_order_accuracy",
)


def evaluate(task, batches, strategy=None):
    evaluator = evaluation.Evaluator(
        task,
        strategy or tf.distribute.get_strategy(),
        batches=batches,
        primary_metric=SCORES[1],
    )
    scores = evaluator.evaluate()
    assert evaluator.evaluate() == scores  # nothing is left over
    return scores


def test_scores_equal_the_recorded_ones_however_the_set_is_cut(shared_data):
    folder = shared_data / "golden" / "model_base"
    task = PretrainingTask(
        AlbertConfig.from_json_file(folder / "albert_config.json")
    )
    load.load_checkpoint(task.model, folder)
    arrays = np.load(folder / "golden.npz")
    names = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions")
    names += ("masked_lm_ids", "masked_lm_weights", "sentence_order_labels")
    rows = tf.data.Dataset.from_tensor_slices({n: arrays[n] for n in names})
    wanted = {
        name: pytest.approx(float(arrays[f"eval/{name}"]), rel=1e-5)
        for name in SCORES
    }

    # The three sequences have 5, 3 and 1 targets.
    for batch_size in (3, 2, 1):
        assert evaluate(task, rows.batch(batch_size)) == wanted


@pytest.fixture
def records():
    """Six examples as two batches, and as one and a half of four rows."""
    rows = {k: v[0] for k, v in runs.batches(1, size=6).items()}
    whole = rows | {"example_weights": np.ones(6, "float32")}
    padded = {
        name: np.concatenate([values, values[:2]])
        for name, values in whole.items()
    }
    for name in ("example_weights", "masked_lm_weights"):
        padded[name][6:] = 0
    return (
        tf.data.Dataset.from_tensor_slices(whole).batch(3),
        tf.data.Dataset.from_tensor_slices(padded).batch(4),
    )


def test_rows_that_fill_up_the_last_batch_do_not_count(records):
    whole, padded = records
    task = PretrainingTask(runs.config())

    assert evaluate(task, padded) == pytest.approx(
        evaluate(task, whole), rel=1e-5
    )


def test_two_replicas_give_the_scores_of_one(records, two_replicas):
    whole, _ = records
    alone = evaluate(PretrainingTask(runs.config()), whole)
    with two_replicas.scope():
        task = PretrainingTask(runs.config())

    together = evaluate(
        task,
        distribution.distribute(two_replicas, lambda _: whole),
        two_replicas,
    )

    assert together == pytest.approx(alone, rel=1e-5)


def test_an_evaluation_drops_nothing_and_changes_no_weight(records):
    task = PretrainingTask(runs.config(dropout=0.5))
    before = [np.array(v) for v in task.model.trainable_variables]

    assert evaluate(task, records[0]) == evaluate(task, records[0])
    for old, variable in zip(
        before, task.model.trainable_variables, strict=True
    ):
        np.testing.assert_array_equal(old, variable)


def test_nothing_to_evaluate_is_an_error():
    with pytest.raises(ValueError, match="There are no records to evaluate"):
        evaluate(PretrainingTask(runs.config()), [])


@pytest.fixture
def columns():
    data = runs.WordData()
    return feature_cache.collect(
        data.records(runs.sentences(13), is_training=False),
        data.array_specs,
        max_seq_length=S,
    )


@pytest.fixture
def outputs(columns):
    """A function of the strategy and the width of a bucket."""

    def run(strategy=None, bucket_width=4):
        strategy = strategy or tf.distribute.get_strategy()
        with strategy.scope():
            task = runs.WordTask(runs.config(), seed=3, dtype="float32")
        predictor = evaluation.Predictor(
            task,
            strategy,
            Padding(max_seq_length=S, bucket_width=bucket_width),
        )
        return task, predictor.run(columns, batch_size=4)

    return run


def test_outputs_are_those_of_each_record_alone(outputs, columns):
    task, found = outputs()

    assert found["logits"].shape == (13, 2)
    for index, length in enumerate(columns.lengths):
        alone = task.outputs(columns.padded([index], int(length)))
        np.testing.assert_allclose(
            found["logits"][index], alone["logits"][0], atol=1e-5
        )
        np.testing.assert_array_equal(
            found["token_sums"][index], alone["token_sums"][0]
        )


@pytest.mark.parametrize("bucket_width", [4, S])
def test_replicas_give_the_outputs_of_one(bucket_width, outputs, two_replicas):
    _, one = outputs()
    _, two = outputs(two_replicas, bucket_width)

    np.testing.assert_allclose(one["logits"], two["logits"], atol=1e-5)
    for ours, theirs in zip(one["token_sums"], two["token_sums"], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_rows_of_other_workers_are_gathered_in_order(two_replicas):
    def replica_rows():
        context = tf.distribute.get_replica_context()
        number = tf.cast(context.replica_id_in_sync_group, tf.float32)
        return evaluation._from_all(number * 10 + [[1.0, 2.0], [3.0, 4.0]])

    rows = tf.function(lambda: two_replicas.run(replica_rows))()

    for part in two_replicas.experimental_local_results(rows):
        assert part.numpy().tolist() == [[1, 2], [3, 4], [11, 12], [13, 14]]
