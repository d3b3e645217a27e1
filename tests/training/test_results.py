"""Scores and files of predictions; whole runs are in test_finetune."""

import os
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import files
from albert_tf.data import bucketed_batches
from albert_tf.tasks.task import ExampleSet
from albert_tf.training import prediction, results
from albert_tf.training.records import RecordSet
from albert_tf.training.workers import Workers
from tests.training import runs


class Data(runs.WordData):
    def scores(self, examples, outputs):
        return {"accuracy": 0.5, "f1": float("nan")}


@pytest.fixture
def evaluator(job):
    """A function that makes one of records with these labels.

    The model always says 0.
    """

    def run(columns, batch_size):
        assert batch_size == 4
        return {"logits": np.eye(2)[[0] * columns.num_records]}

    def make(labels):
        arrays = {
            n: np.ones(3) for n in ("input_ids", "input_mask", "segment_ids")
        }
        columns = bucketed_batches.collect(
            (arrays | {"label_ids": np.array(one)} for one in labels),
            Data.array_specs,
            max_seq_length=3,
        )
        sets = [RecordSet(examples=(), data=Data(), columns=columns)]
        return results.FinetuningEvaluator(
            job().config, sets, types.SimpleNamespace(run=run)
        )

    return make


@pytest.mark.parametrize(
    ("labels", "share_of_0"),
    [([0, 1] * 8, 1 / 2), ([0] * 15 + [1], 15 / 16), ([0, 1] * 7, None)],
)
def test_an_evaluation_has_scores_and_the_loss_where_there_are_enough_records(
    labels, share_of_0, evaluator, caplog
):
    one = evaluator(labels)

    scores = one.evaluate()

    assert one.primary_metric == "accuracy"
    wanted = {"accuracy": 0.5, "f1": 0.0}
    assert "f1 is nan; it is reported as 0." in caplog.text
    if share_of_0:
        # The logits are 1 and 0 for all records.
        wanted["loss"] = pytest.approx(np.log(1 + np.e) - share_of_0)
    assert scores == wanted


class Table:
    """Examples that are no sequence."""

    def __init__(self, examples):
        self._examples = examples

    def __len__(self):
        return len(self._examples)

    def __iter__(self):
        return iter(self._examples)


@pytest.mark.parametrize("kind", [list, Table])
def test_predictions_are_written_chunk_by_chunk(kind, monkeypatch, tmp_path):
    monkeypatch.setattr(prediction, "CHUNK_SIZE", 5)
    examples = runs.sentences(13)
    one = ExampleSet(examples=kind(examples), data=runs.WordData())
    _, predictor = runs.predictor()
    wanted = predictor.run(runs.columns(13), batch_size=4)["logits"]
    chunks = list(predictor.predict(one, batch_size=4))
    assert [len(chunk) for chunk, _ in chunks] == [5, 5, 3]
    found = np.concatenate([outputs["logits"] for _, outputs in chunks])
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    folder = str(tmp_path / "run")
    alone = Workers(tf.distribute.get_strategy())

    def write():
        results.write_predictions(one, chunks, folder, {}, alone)

    write()

    path = os.path.join(folder, "predictions.json")
    answers = files.read_json(path)
    assert list(answers) == [example.guid for example in examples]
    assert list(answers.values()) == wanted.argmax(-1).tolist()
    # Workers but the chief compute and do not write.
    os.remove(path)
    with monkeypatch.context() as patch:
        patch.setattr(alone, "is_chief", False)
        write()
    assert not os.path.exists(path)
    # If the chief cannot write, it fails, and the others with it.
    os.rmdir(folder)
    files.write_text(folder, "a file in place of the folder")
    with pytest.raises(FileExistsError):
        write()
