"""Outputs, verdicts and scores; whole runs are in test_finetune."""

import contextlib
import os
import threading
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import files
from albert_tf.data import feature_cache
from albert_tf.data.bucketed_batches import Padding
from albert_tf.tasks.task import ExampleSet, ExampleStream, Sets
from albert_tf.training import distribution, records, results
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
    ("labels", "share_of_0"),
    [([0, 1] * 8, 1 / 2), ([0] * 15 + [1], 15 / 16), ([0, 1] * 7, None)],
)
def test_evaluations_compute_anew_and_compare_with_chance(
    labels, share_of_0, job, record_set, predictor
):
    class Data:
        primary_metric = "accuracy"
        array_specs = job().sets.data.array_specs

        def scores(self, examples, outputs):
            return {"accuracy": 0.5}

    evaluator = results.FinetuningEvaluator(
        job().config, [record_set(labels, data=Data())], predictor
    )

    for _ in range(2):
        scores = evaluator.evaluate()

    assert evaluator.primary_metric == "accuracy"
    assert scores.pop("accuracy") == 0.5
    if share_of_0:
        # The logits are 1 and 0 for all records.
        loss = np.log(1 + np.e) - share_of_0
        assert scores.pop("loss") == pytest.approx(loss)
        assert scores.pop("above_chance") == 0
    assert not scores
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

    def run(strategy=None, bucket_width=4, make_task=runs.WordTask):
        strategy = strategy or tf.distribute.get_strategy()
        with strategy.scope():
            task = make_task(runs.config(), seed=3, dtype="float32")
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


def test_one_cpu_computes_two_batches_at_a_time(outputs):
    meeting, met = threading.Barrier(2), []

    def meet():
        if not met:
            met.append(meeting.wait(timeout=30))

    class Meeting(runs.WordTask):
        def outputs(self, batch):
            tf.py_function(meet, [], [])
            return super().outputs(batch)

    _, wanted = outputs()
    _, found = outputs(make_task=Meeting)

    assert len(met) == 2
    np.testing.assert_array_equal(found["logits"], wanted["logits"])


def test_a_batch_that_fails_ends_the_prediction(outputs):
    class Failing(runs.WordTask):
        def outputs(self, batch):
            is_short = tf.shape(batch["input_mask"])[1] < runs.S
            with tf.control_dependencies([tf.debugging.Assert(is_short, [7])]):
                return super().outputs(batch)

    with pytest.raises(tf.errors.InvalidArgumentError):
        outputs(make_task=Failing)


def test_outputs_that_are_not_numbers_are_reported(outputs, caplog):
    outputs()
    assert "not numbers" not in caplog.text

    class Overflowing(runs.WordTask):
        def outputs(self, batch):
            found = super().outputs(batch)
            is_long = tf.reduce_sum(batch["input_mask"], -1) == runs.S
            found["logits"] = tf.where(is_long[:, None], np.inf, 0.0)
            return found

    outputs(make_task=Overflowing)

    lengths = [len(one.tokens) for one in runs.sentences(13)]
    number = lengths.count(runs.S)
    assert number
    assert f"{number} of 13 records, the first is number " in caplog.text
    assert f"number {lengths.index(runs.S) + 1}, have outputs" in caplog.text


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

    @property
    def fingerprint(self):
        return f"of {len(self)}"

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

    def write():
        strategy = tf.distribute.get_strategy()
        results.write_streams(config, sets.streams, predictor, {}, strategy)

    write()

    assert sets.prediction == ()
    # Workers compare what they are about to read.
    assert records.fingerprints(sets) == {"predict-other": "of 13"}
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
    with monkeypatch.context() as patch:
        patch.setattr(distribution, "is_chief", lambda _: False)
        write()
    assert not os.path.exists(path)
    # If the chief cannot write, it fails, and the others with it.
    os.rmdir(os.path.dirname(path))
    files.write_text(os.path.dirname(path), "a file in place of the folder")
    with pytest.raises(FileExistsError):
        write()


def test_rows_of_other_workers_are_gathered_in_order(two_replicas):
    def replica_rows():
        context = tf.distribute.get_replica_context()
        number = tf.cast(context.replica_id_in_sync_group, tf.float32)
        return results._from_all(number * 10 + [[1.0, 2.0], [3.0, 4.0]])

    rows = tf.function(lambda: two_replicas.run(replica_rows))()

    for part in two_replicas.experimental_local_results(rows):
        assert part.numpy().tolist() == [[1, 2], [3, 4], [11, 12], [13, 14]]
