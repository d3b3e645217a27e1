"""The defaults of a data half: comparison with chance, interval."""

import dataclasses
import types

import numpy as np
import pytest

from albert_tf.data import record_columns
from albert_tf.features import ArraySpec
from albert_tf.metrics.scores import Score, Scores
from albert_tf.tasks import encoder_records
from albert_tf.tasks.task_data import TaskData


@dataclasses.dataclass(frozen=True, kw_only=True)
class Moods(TaskData):
    """Has only the abstract methods; the labels have a name of their own."""

    name = "moods"
    label_array = "moods"
    primary_metric = "accuracy"

    tokenizer = types.SimpleNamespace(special_ids=types.SimpleNamespace(pad=0))
    spec: ArraySpec = ArraySpec(name="moods", dtype="int32")
    is_regression: bool = False
    class_weights: tuple[float, ...] = ()

    @property
    def array_specs(self):
        return encoder_records.array_specs(self.tokenizer, self.spec)

    @property
    def settings(self):
        return {}

    def records(self, examples, *, is_training):
        ids = np.array([2, 5, 3], np.int32)
        for label in examples:
            yield {
                "input_ids": ids,
                "input_mask": ids * 0 + 1,
                "segment_ids": ids * 0,
                "moods": np.array(label),
            }

    def scores(self, examples, outputs):
        is_right = np.argmax(outputs["logits"], axis=-1) == examples
        return Scores(entries=(Score("accuracy", float(np.mean(is_right))),))

    def baselines(self, examples, start_outputs=None):
        return {"accuracy": 0.5}

    def answers(self, examples, outputs):
        yield from ()


def columns_of(data, labels):
    return record_columns.collect(
        data.records(labels, is_training=False),
        data.array_specs,
        max_seq_length=3,
    )


CLASSES = [0, 1] * 8
NUMBERS = [(i, -i) for i in range(16)]
TAGS = [(-1, 0, 1)] * 16


@pytest.mark.parametrize(
    ("spec", "labels", "logits", "loss", "chance"),
    [
        # Two classes, as often: a loss of log 2 without any knowledge.
        ({}, CLASSES, np.zeros((16, 2)), np.log(2), np.log(2)),
        # Numbers from 0 to 15 have the variance (16^2 - 1) / 12.
        (
            {"dtype": "float32", "shape": (2,)},
            NUMBERS,
            np.array(NUMBERS) + 3.0,
            9.0,
            21.25,
        ),
        # The first position has no tag; the others are right and wrong.
        (
            {"is_sequence": True},
            TAGS,
            [np.zeros((3, 2))] * 16,
            np.log(2),
            np.log(2),
        ),
    ],
)
def test_any_array_of_labels_is_compared_with_chance(
    spec, labels, logits, loss, chance
):
    data = Moods(
        spec=ArraySpec(**{"name": "moods", "dtype": "int32"} | spec),
        is_regression="shape" in spec,
    )

    found = data.compare_with_chance(
        columns_of(data, labels), {"logits": logits}
    )

    assert found.loss == pytest.approx(loss)
    assert found.chance_loss == pytest.approx(chance)


def test_class_weights_change_the_level_of_chance():
    data = Moods(class_weights=(1.0, 3.0))
    columns = columns_of(data, CLASSES)

    found = data.compare_with_chance(columns, {"logits": np.zeros((16, 2))})

    # A quarter and three quarters of the weight.
    expected = np.log(4) - 0.75 * np.log(3)
    assert found.chance_loss == pytest.approx(expected)


@pytest.mark.parametrize(
    ("labels", "label_array", "reason"),
    [
        (CLASSES[:-2], "moods", "fewer than 16 records"),
        ([0] * 20, "moods", "all labels are equal"),
        (CLASSES, "labels", "records have no array 'labels'"),
    ],
)
def test_what_is_not_compared_with_chance_has_a_reason(
    labels, label_array, reason, monkeypatch
):
    monkeypatch.setattr(Moods, "label_array", label_array)
    data = Moods()
    columns = columns_of(data, labels)

    found = data.compare_with_chance(
        columns, {"logits": np.zeros((len(labels), 2))}
    )

    assert found is None
    assert reason in data.why_not_compared(columns)


def test_some_of_the_examples_have_a_score_by_default():
    logits = np.eye(2)[[0, 1, 1]]

    score = Moods().score_of_rows([0, 1, 0], {"logits": logits}, Scores())

    assert score(np.array([0, 1, 2])) == pytest.approx(2 / 3)
    assert score(np.array([2, 2, 2])) == 0
    # As of examples with several windows.
    assert Moods().score_of_rows([0, 1], {"logits": logits}, Scores()) is None


@pytest.mark.parametrize(
    ("metric", "expected"), [("f1", (0, 1)), ("pearson", (-1, 1))]
)
def test_correlations_may_be_negative(metric, expected, monkeypatch):
    monkeypatch.setattr(Moods, "primary_metric", metric)

    assert Moods().metric_range == expected
