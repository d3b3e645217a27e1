"""The table of doubtful labels of a cross-validation."""

import logging
import types

import numpy as np

from albert_tf.metrics.scores import Scores
from albert_tf.observers import label_issues
from albert_tf.tasks.labelled_texts import ClassificationExample
from albert_tf.tasks.task_data import ExampleSet, Labelled


def write(tmp_path, *labelled):
    rows = [
        ClassificationExample(guid=f"r{i}", text_a=f"a{i}", text_b=f"b{i}")
        for i in range(3)
    ]
    data = types.SimpleNamespace(labelled=lambda *_: iter(labelled))
    path = tmp_path / "issues.tsv"
    evaluated = ExampleSet(examples=rows, data=data)
    label_issues.write(str(path), evaluated, {}, Scores())
    return path


def test_words_are_listed_with_their_texts(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    shares = np.array([[0.9, 0.1], [0.2, 0.8], [0.1, 0.9]])
    words = Labelled(
        labels=np.array([0, 1, 0]),
        probabilities=shares,
        names=("O", "X"),
        examples=np.array([0, 0, 2]),
        words=("one", "two", "three"),
    )

    path = write(tmp_path, words)

    assert path.read_text() == (
        "id\tlabel\tprobability\tlikelier_label\tlikelier_probability\ttext"
        "\tword\nr2\tO\t0.1000\tX\t0.9000\ta2 | b2\tthree\n"
    )
    assert f"1 of 3 labels are doubtful: see {path}" in caplog.text


def test_no_doubt_is_a_table_without_rows_and_no_label_is_no_table(tmp_path):
    certain = Labelled(np.array([0]), np.eye(2)[:1], ("O", "X"), np.array([0]))

    assert len(write(tmp_path, certain).read_text().splitlines()) == 1
    (tmp_path / "issues.tsv").unlink()
    assert not write(tmp_path).exists()
