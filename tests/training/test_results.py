"""Outputs, verdicts and scores; whole runs are in test_finetune."""

import contextlib
import os
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import files
from albert_tf.data import feature_cache
from albert_tf.data.bucketed_batches import Padding
from albert_tf.tasks.task import ExampleSet, ExampleStream, Sets
from albert_tf.training import records, results
from albert_tf.training.records import RecordSet
from tests.training import runs


@pytest.fixture
def record_set():
    """A function that makes 3 tokens a record, with given labels or none."""

    def make(labels, fingerprint="own", name="", data=None):
        data = data or runs.WordData()
        names = ("input_ids", "input_mask", "segment_ids")
        arrays = {n: np.ones(3) for n in names}
        specs = data.array_specs
        if labels is None:
            specs, rows = specs[:-1], [arrays] * 16
        else:
            rows = [arrays | {"label_ids": np.array(one)} for one in labels]
        return RecordSet(
            name=name,
            examples=(),
            data=data,
            columns=feature_cache.collect(rows, specs, max_seq_length=3),
            fingerprint=fingerprint,
        )

    return make


def outputs_of(predictions):
    return {"own": {"logits": np.eye(2, dtype=np.float32)[predictions]}}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [([0, 1] * 8, True), ([1] * 16, False), ([0, 1] * 7, False), (None, True)],
)
def test_only_large_sets_of_several_labels_are_judged(
    labels, expected, record_set
):
    records = record_set(labels)
    outputs = outputs_of([0] * records.columns.num_records)

    assert results.can_be_judged(records) == expected
    assert bool(results.constant_predictions(records, outputs)) == expected


@pytest.mark.parametrize(
    ("num_others", "words"),
    [(0, "All 40 records"), (1, "All but a few of 40"), (2, None)],
)
def test_a_verdict_says_how_many_predictions_are_the_same(
    num_others, words, record_set
):
    outputs = outputs_of([1] * num_others + [0] * (40 - num_others))

    verdict = results.constant_predictions(record_set([0, 1] * 20), outputs)

    assert (verdict or "").startswith(words or "")
    assert bool(verdict) == bool(words)


@pytest.fixture
def predictor():
    """A predictor that always says 0, and remembers what it was asked."""
    calls = []

    def run(columns, batch_size):
        calls.append(batch_size)
        return {"logits": np.eye(2)[[0] * columns.num_records]}

    return types.SimpleNamespace(run=run, calls=calls)


def test_outputs_that_are_known_are_not_computed_again(record_set, predictor):
    sets = [record_set([0, 1], "own"), record_set([0, 1], "other")]
    known = {"own": {"logits": np.zeros((2, 2))}}

    outputs = results.predict(predictor, sets, 5, known)

    assert set(outputs) == {"own", "other"}
    assert outputs["own"] is known["own"]
    assert set(known) == {"own"}
    assert predictor.calls == [5]


@pytest.mark.parametrize(
    ("num_train_steps", "labels", "disqualifying", "flags"),
    [
        (50, [0, 1] * 8, "constant_predictions", [1.0]),
        (49, [0, 1] * 8, "", [1.0]),
        (50, [0, 1] * 7, "constant_predictions", []),
    ],
)
def test_evaluations_compute_anew_and_say_whether_predictions_are_constant(
    num_train_steps, labels, disqualifying, flags, job, record_set, predictor
):
    class Data:
        primary_metric = "accuracy"
        array_specs = job().sets.data.array_specs

        def scores(self, examples, outputs):
            return {"accuracy": 0.5}

    evaluator = results.FinetuningEvaluator(
        job(num_train_steps=num_train_steps).config,
        [record_set(labels, data=Data())],
        predictor,
    )

    for _ in range(2):
        scores = evaluator.evaluate()

    assert evaluator.primary_metric == "accuracy"
    assert evaluator.disqualifying_metric == disqualifying
    assert scores.pop("accuracy") == 0.5
    assert list(scores.values()) == flags
    assert predictor.calls == [4, 4]


@pytest.fixture
def columns():
    data = runs.WordData()
    return feature_cache.collect(
        data.records(runs.sentences(13), is_training=False),
        data.array_specs,
        max_seq_length=runs.S,
    )


@pytest.fixture
def outputs(columns):
    """A function of the strategy and the width of a bucket."""

    def run(strategy=None, bucket_width=4):
        strategy = strategy or tf.distribute.get_strategy()
        with strategy.scope():
            task = runs.WordTask(runs.config(), seed=3, dtype="float32")
        predictor = results.Predictor(
            task,
            strategy,
            Padding(max_seq_length=runs.S, bucket_width=bucket_width),
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


@pytest.mark.parametrize("bucket_width", [4, runs.S])
def test_replicas_give_the_outputs_of_one(bucket_width, outputs, two_replicas):
    _, one = outputs()
    _, two = outputs(two_replicas, bucket_width)

    np.testing.assert_allclose(one["logits"], two["logits"], atol=1e-5)
    for ours, theirs in zip(one["token_sums"], two["token_sums"], strict=True):
        np.testing.assert_array_equal(ours, theirs)


class Stream(ExampleStream):
    def __init__(self, examples):
        self._examples = examples

    def __len__(self):
        return len(self._examples)

    def __iter__(self):
        return iter(self._examples)


class StreamedWords(runs.WordData):
    @contextlib.contextmanager
    def open_predictions(self, output_dir, scores):
        parts = []

        def write(examples, outputs):
            guids = [example.guid for example in examples]
            parts.append([guids, outputs["logits"].tolist()])

        yield write
        files.write_json(os.path.join(output_dir, "parts.json"), parts)


def test_a_stream_is_predicted_part_by_part(job, outputs, monkeypatch):
    monkeypatch.setattr(records, "_PART_SIZE", 5)
    examples = runs.sentences(13)
    one = ExampleSet(
        examples=Stream(examples), data=StreamedWords(), name="other"
    )
    task, wanted = outputs()
    config = job(prediction=(one,), predict_batch_size=4).config
    predictor = results.Predictor(
        task,
        tf.distribute.get_strategy(),
        Padding(max_seq_length=runs.S, bucket_width=4),
    )
    sets = records.open_sets(
        config, Sets(prediction=(one,)), tf.distribute.get_strategy()
    )

    results.write_streams(config, sets.streams, predictor, {}, is_chief=True)

    assert sets.prediction == ()
    # No records are cached.
    assert os.listdir(config.output_dir) == ["other"]
    path = os.path.join(config.output_dir, "other", "parts.json")
    parts = files.read_json(path)
    assert [len(guids) for guids, _ in parts] == [5, 5, 3]
    guids = [guid for guids, _ in parts for guid in guids]
    assert guids == [example.guid for example in examples]
    found = [row for _, rows in parts for row in rows]
    np.testing.assert_allclose(found, wanted["logits"], atol=1e-5)
    # Workers but the chief compute and do not write.
    os.remove(path)
    results.write_streams(config, sets.streams, predictor, {}, is_chief=False)
    assert not os.path.exists(path)


def test_rows_of_other_workers_are_gathered_in_order(two_replicas):
    def replica_rows():
        context = tf.distribute.get_replica_context()
        number = tf.cast(context.replica_id_in_sync_group, tf.float32)
        return results._from_all(number * 10 + [[1.0, 2.0], [3.0, 4.0]])

    rows = tf.function(lambda: two_replicas.run(replica_rows))()

    for part in two_replicas.experimental_local_results(rows):
        assert part.numpy().tolist() == [[1, 2], [3, 4], [11, 12], [13, 14]]
