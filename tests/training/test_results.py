"""Outputs, verdicts and scores; whole runs are in test_finetune."""

import contextlib
import os
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import files
from albert_tf.data import feature_cache
from albert_tf.tasks.task import ExampleSet, ExampleStream, Sets
from albert_tf.training import records, results
from albert_tf.training.records import RecordSet
from albert_tf.training.workers import Workers
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


def test_a_stream_is_predicted_part_by_part(job, monkeypatch):
    monkeypatch.setattr(records, "_PART_SIZE", 5)
    examples = runs.sentences(13)
    one = ExampleSet(
        examples=Stream(examples), data=StreamedWords(), name="other"
    )
    (_, predictor), columns = runs.predictor(), runs.columns(13)
    wanted = predictor.run(columns, batch_size=4)
    config = job(prediction=(one,), predict_batch_size=4).config
    alone = Workers(tf.distribute.get_strategy())
    sets = records.open_sets(config, Sets(prediction=(one,)), alone)

    def write():
        results.write_streams(config, sets.streams, predictor, {}, alone)

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
        patch.setattr(alone, "is_chief", False)
        write()
    assert not os.path.exists(path)
    # If the chief cannot write, it fails, and the others with it.
    os.rmdir(os.path.dirname(path))
    files.write_text(os.path.dirname(path), "a file in place of the folder")
    with pytest.raises(FileExistsError):
        write()
