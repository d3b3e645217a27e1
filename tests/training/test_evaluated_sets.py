"""What is said of a run's sets; whole runs are in test_finetune."""

import types

import numpy as np
import pytest

from albert_tf.data import record_columns
from albert_tf.training import evaluated_sets
from albert_tf.training.record_sets import RecordSet, RecordSets


@pytest.fixture
def records(word_data):
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
        columns = record_columns.collect(rows, specs, max_seq_length=3)
        return RecordSet(
            name="", examples=(), data=data, columns=columns, key="key"
        )

    return make


@pytest.fixture
def judged(records):
    """A function that makes the sets of a run with given logits."""

    def make(labels, logits=None, **settings):
        main = records(labels, **settings)
        calls = []

        def run(columns, batch_size):
            calls.append(batch_size)
            return {"logits": np.array(logits, np.float32)}

        sets = RecordSets(train=None, evaluation=(main,), prediction=())
        job = types.SimpleNamespace(
            training=types.SimpleNamespace(eval_batch_size=5)
        )
        made = evaluated_sets.EvaluatedSets(
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

    made = evaluated_sets.EvaluatedSets(None, sets, None)

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
