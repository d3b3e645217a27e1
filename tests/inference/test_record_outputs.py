"""Outputs of every record: their values, their order, and failures."""

import io
import os
import threading

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import files
from albert_tf.data import record_columns
from albert_tf.data.record_columns import Padding
from albert_tf.devices.strategies import Workers
from albert_tf.features import ArraySpec
from albert_tf.inference import record_outputs
from albert_tf.tasks.squad.model import BeamSpanTask
from albert_tf.tasks.task_data import ExampleSet
from tests import tiny
from tests.exported_models import TINY_CONFIG
from tests.training import runs


@pytest.fixture
def columns():
    return runs.columns(13)


@pytest.fixture
def outputs(columns):
    """A function of the strategy and the width of a bucket."""

    def run(strategy=None, bucket_width=4, make_task=runs.WordTask):
        task, computer = runs.computer(strategy, bucket_width, make_task)
        return task, computer.run(columns, 4)

    return run


def test_outputs_equal_the_outputs_of_each_record_alone(outputs, columns):
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
def test_replicas_give_the_outputs_of_one(bucket_width, columns, two_replicas):
    _, alone = runs.computer()
    _, replicas = runs.computer(two_replicas, bucket_width)

    one, two = alone.run(columns, 4), replicas.run(columns, 4)

    np.testing.assert_allclose(one["logits"], two["logits"], atol=1e-5)
    for ours, theirs in zip(one["token_sums"], two["token_sums"], strict=True):
        np.testing.assert_array_equal(ours, theirs)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_progress_is_shown_on_terminals_alone(stream, outputs, monkeypatch):
    stderr = stream()
    monkeypatch.setattr("sys.stderr", stderr)

    outputs()

    assert ("13/13" in stderr.getvalue()) == stderr.isatty()


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


def test_a_batch_is_at_least_as_long_as_a_beam():
    task = BeamSpanTask(TINY_CONFIG, start_n_top=9, end_n_top=2)
    rows = {name: np.asarray(values) for name, values in tiny.batch().items()}
    specs = tuple(
        ArraySpec(
            name=name,
            dtype="float32" if name == "p_mask" else "int32",
            is_sequence=True,
            pad_value=int(name == "p_mask"),
        )
        for name in ("input_ids", "input_mask", "segment_ids", "p_mask")
    )
    records = [{s.name: rows[s.name][i] for s in specs} for i in range(2)]
    collected = record_columns.collect(records, specs, max_seq_length=5)
    padding = Padding(max_seq_length=5, bucket_width=None)

    found = record_outputs.OutputComputer(task, padding).run(collected, 1)

    wanted = BeamSpanTask(TINY_CONFIG, start_n_top=4, end_n_top=2).outputs(rows)
    assert found["start_top_index"].shape == (2, 9)
    assert found["end_top_index"].shape == (2, 18)
    # Four tokens of the first row may begin an answer; no other may.
    np.testing.assert_array_equal(
        found["start_top_index"][0, :4], wanted["start_top_index"][0]
    )
    np.testing.assert_allclose(
        found["cls_logits"], wanted["cls_logits"], rtol=1e-5, atol=1e-6
    )
    assert np.all(found["start_top_log_probs"][0, 4:] < -1e29)


def test_a_batch_that_fails_ends_the_prediction(outputs):
    class Failing(runs.WordTask):
        def outputs(self, batch):
            is_short = tf.shape(batch["input_mask"])[1] < runs.S
            with tf.control_dependencies([tf.debugging.Assert(is_short, [7])]):
                return super().outputs(batch)

    with pytest.raises(tf.errors.InvalidArgumentError):
        outputs(make_task=Failing)


def test_outputs_that_are_not_numbers_are_found(outputs):
    assert record_outputs.find_not_finite(outputs()[1]) is None

    class Overflowing(runs.WordTask):
        def outputs(self, batch):
            found = super().outputs(batch)
            is_long = tf.reduce_sum(batch["input_mask"], -1) == runs.S
            found["logits"] = tf.where(is_long[:, None], np.inf, 0.0)
            return found

    problem = record_outputs.find_not_finite(outputs(make_task=Overflowing)[1])

    lengths = [len(one.tokens) for one in runs.sentences(13)]
    number = lengths.count(runs.S)
    assert number
    first = lengths.index(runs.S) + 1
    assert problem.startswith(
        f"{number} of 13 records, the first is number {first}, have outputs"
    )


class Table:
    """Examples that are no sequence."""

    def __init__(self, examples):
        self._examples = examples

    def __len__(self):
        return len(self._examples)

    def __iter__(self):
        return iter(self._examples)


def test_a_file_that_loses_rows_while_it_is_predicted_is_an_error(tmp_path):
    examples = Table(runs.sentences(5))
    one = ExampleSet(examples=examples, data=runs.WordData())
    _, computer = runs.computer()
    chunks = list(computer.run_chunks(one, 4))
    examples._examples.append("another")

    with pytest.raises(ValueError, match="it has 5 examples, and had 6"):
        record_outputs.write_predictions(
            one, chunks, tmp_path, {}, Workers(tf.distribute.get_strategy())
        )
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("kind", [list, Table])
def test_predictions_are_written_chunk_by_chunk(
    kind, outputs, monkeypatch, tmp_path
):
    monkeypatch.setattr(record_outputs, "CHUNK_SIZE", 5)
    examples = runs.sentences(13)
    one = ExampleSet(examples=kind(examples), data=runs.WordData())
    _, computer = runs.computer()
    chunks = list(computer.run_chunks(one, 4))
    folder = str(tmp_path / "run")
    alone = Workers(tf.distribute.get_strategy())

    def write():
        record_outputs.write_predictions(one, chunks, folder, {}, alone)

    write()

    assert [len(chunk) for chunk, _ in chunks] == [5, 5, 3]
    wanted = outputs()[1]["logits"].argmax(-1).tolist()
    path = os.path.join(folder, "predictions.json")
    answers = files.read_json(path)
    assert list(answers) == [example.guid for example in examples]
    assert list(answers.values()) == wanted
    # Workers but the chief compute and do not write.
    os.remove(path)
    monkeypatch.setattr(alone, "is_chief", False)
    write()
    assert not os.path.exists(path)
