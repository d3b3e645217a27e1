"""What is wrong with a head of one's own, said before its training begins."""

import keras
import numpy as np
import pytest

import albert_tf

TRIED = {"name": "tried", "num_outputs": 2, "label_columns": ("a", "b")}
ONE = TRIED | {"num_outputs": 1, "label_columns": ("a",)}


def head_class(**attributes):
    def answers(self, logits):
        return {"a": logits[:, 0]}

    members = TRIED | {"answers": answers} | attributes
    return type("Tried", (albert_tf.PooledHead,), members)


def no_loss(self, logits, labels):
    return keras.ops.zeros_like(labels[:, 0])


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"name": "classifier"}, "`name` of a head must be a word"),
        ({"loss": "square"}, "`loss` must be one of squared_error, .*'square'"),
        ({"num_outputs": 0}, "tried must have `num_outputs`, 1 or more"),
        ({"text_columns": "text"}, "`text_columns` .* must be a tuple.*'text'"),
        ({"label_columns": "a"}, "`label_columns` of the head tried must be"),
        # Its labels may be of any kind, so it has no accuracy.
        ({"loss": "other"}, "must have the methods losses, scores"),
        ({"loss": "other", "losses": no_loss}, "must have the methods"),
    ],
)
def test_a_declaration_is_checked_when_the_class_is_made(attributes, words):
    with pytest.raises(ValueError, match=words):
        head_class(**attributes)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"label": lambda self, row: row["c"]}, "no label .KeyError: 'c'"),
        ({"label_columns": ("a",)}, "must be 2 numbers. Received: .1.5"),
        ({"label": lambda self, row: [np.nan, 0]}, "must be 2 numbers"),
        ({"loss": "cross_entropy"}, "number of a class, 0 to 1. .* .1.5, 0.0"),
        (ONE | {"loss": "cross_entropy"}, "of a class, 0 to 0. Received: .1.5"),
        ({"loss": "binary_cross_entropy"}, "2 numbers from 0 to 1. .*1.5, 0.0"),
        ({"answers": lambda self, logits: logits}, "`answers` of the head tri"),
        (
            {"answers": lambda self, logits: {"a": logits[0, 0]}},
            "must return a dict of arrays with a row for each text",
        ),
        # It would be multiplied by the weights of 4 rows to 4 x 4 numbers.
        (
            ONE
            | {
                "loss": "other",
                "losses": lambda self, logits, labels: (logits - labels) ** 2,
                "scores": lambda self, *_: albert_tf.Scores(),
            },
            r"`losses` of the head tried must return .*shape \(4, 1\)",
        ),
        (
            {"scores": lambda self, labels, logits: {"pearson": 1.0}},
            "`scores` of the head tried must return `albert_tf.Scores`",
        ),
    ],
)
def test_a_method_that_does_not_fit_is_named(attributes, words, base, tmp_path):
    rows = [{"text": "a cat", "a": "1.5", "b": "0"}] * 4

    with pytest.raises(ValueError, match=words):
        albert_tf.finetune(
            head_class(**attributes)(),
            train_examples=rows,
            eval_examples=rows,
            init_checkpoint=base,
            output_dir=tmp_path / "run",
            num_train_steps=1,
            train_batch_size=4,
        )
