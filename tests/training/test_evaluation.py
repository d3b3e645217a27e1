"""Outputs come back in the order of the records, however many replicas.

What is said of a run's sets; whole runs are in test_finetune.
"""

import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load
from albert_tf.config import AlbertConfig
from albert_tf.data import feature_cache
from albert_tf.data.bucketed_batches import Padding
from albert_tf.tasks.pretraining import PretrainingTask
from albert_tf.training import distribution, evaluation
from albert_tf.training.records import RecordSet, RecordSets

SCORES = (
    "masked_lm_loss",
    "masked_lm_accuracy",
    "sentence_order_loss",
    "sentence_order_accuracy",
)


def one_device(task):
    return evaluation.Evaluator(task, tf.distribute.get_strategy())


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
        batches = rows.batch(batch_size)
        assert one_device(task).run(batches) == wanted


@pytest.fixture
def records(tiny_batches):
    """Six examples as two batches, and as one and a half of four rows."""
    rows = {k: v[0] for k, v in tiny_batches(1, size=6).items()}
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


def test_rows_that_fill_up_the_last_batch_do_not_count(records, tiny_config):
    whole, padded = records
    evaluator = one_device(PretrainingTask(tiny_config()))

    assert evaluator.run(padded) == pytest.approx(
        evaluator.run(whole), rel=1e-5
    )


def test_two_replicas_give_the_scores_of_one(
    records, tiny_config, two_replicas
):
    whole, _ = records
    alone = one_device(PretrainingTask(tiny_config())).run(whole)
    with two_replicas.scope():
        task = PretrainingTask(tiny_config())
    evaluator = evaluation.Evaluator(task, two_replicas)

    together = evaluator.run(
        distribution.distribute(two_replicas, lambda *_: whole)
    )

    assert together == pytest.approx(alone, rel=1e-5)


def test_an_evaluation_drops_nothing_and_changes_no_weight(
    records, tiny_config
):
    task = PretrainingTask(tiny_config(dropout=0.5))
    before = [np.array(v) for v in task.model.trainable_variables]
    evaluator = one_device(task)

    assert evaluator.run(records[0]) == evaluator.run(records[0])
    for old, variable in zip(
        before, task.model.trainable_variables, strict=True
    ):
        np.testing.assert_array_equal(old, variable)


def test_nothing_to_evaluate_is_an_error(tiny_config):
    evaluator = one_device(PretrainingTask(tiny_config()))

    with pytest.raises(ValueError, match="nothing to evaluate: no records"):
        evaluator.run([])


S = 16


@pytest.fixture
def columns(word_data, sentences):
    data = word_data()
    return feature_cache.collect(
        data.records(sentences(13), is_training=False),
        data.array_specs,
        max_seq_length=S,
    )


@pytest.fixture
def outputs(columns, word_task, tiny_config):
    """A function of the strategy and the width of a bucket."""

    def run(strategy=None, bucket_width=4):
        strategy = strategy or tf.distribute.get_strategy()
        with strategy.scope():
            task = word_task(tiny_config(), seed=3, dtype="float32")
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


@pytest.fixture
def evaluated_sets_records(word_data):
    """A function that makes a set of records with given labels, or none."""

    def make(labels, num_records=16, data=None):
        data = data or word_data()
        specs = data.array_specs
        arrays = {"input_ids": np.ones(3)}
        if labels is None:
            specs = specs[:1]
            rows = [arrays] * num_records
        else:
            names = ("input_ids", "input_mask", "segment_ids")
            arrays = {name: np.ones(3) for name in names}
            rows = [arrays | {"label_ids": np.array(one)} for one in labels]
        columns = feature_cache.collect(rows, specs, max_seq_length=3)
        return RecordSet(
            name="", examples=(), data=data, columns=columns, key="key"
        )

    return make


@pytest.fixture
def judged(evaluated_sets_records):
    """A function that makes the sets of a run with given logits."""

    def make(labels, logits=None, **settings):
        main = evaluated_sets_records(labels, **settings)
        calls = []

        def run(columns, batch_size):
            calls.append(batch_size)
            return {"logits": np.array(logits, np.float32)}

        sets = RecordSets(train=None, evaluation=(main,), prediction=())
        job = types.SimpleNamespace(
            training=types.SimpleNamespace(eval_batch_size=5)
        )
        made = evaluation.EvaluatedSets(
            job, sets, types.SimpleNamespace(run=run)
        )
        return made, calls

    return make


@pytest.mark.parametrize(
    ("labels", "expected"),
    [([0, 1] * 8, True), ([1] * 16, False), ([0, 1] * 7, False), (None, True)],
)
def test_only_large_sets_of_several_labels_are_judged(labels, expected, judged):
    made, _ = judged(labels, np.eye(2)[[0] * 16])

    assert made.can_be_judged == expected
    assert bool(made.verdict()) == expected


def test_without_an_evaluation_there_is_no_verdict():
    sets = RecordSets(train=None, evaluation=(), prediction=())

    made = evaluation.EvaluatedSets(None, sets, None)

    assert made.verdict() is None


@pytest.mark.parametrize(
    ("num_others", "words"),
    [(0, "All 40 records"), (1, "All but a few of 40"), (2, None)],
)
def test_a_verdict_says_how_many_predictions_are_the_same(
    num_others, words, judged
):
    predictions = np.arange(40) < num_others
    made, _ = judged([0, 1] * 20, np.eye(2)[predictions.astype(int)])

    verdict = made.verdict()

    assert (verdict or "").startswith(words or "")
    assert bool(verdict) == bool(words)


def test_outputs_are_computed_anew_after_the_weights_have_changed(judged):
    made, calls = judged([0, 1] * 8, np.eye(2)[[0] * 16])
    made.verdict()
    made.verdict()
    assert calls == [5]

    made.forget()
    made.verdict()

    assert calls == [5, 5]
