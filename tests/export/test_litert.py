"""Exports for LiteRT, run by `load_predictor` as the checkpoint is."""

import dataclasses
import functools
import os

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.export import saved_model
from tests.exported_models import TINY_CONFIG, make_config, write_checkpoint
from tests.heads.rows import near

TEXTS = ["a house", "the cat sat on the mat", ("a house", "half"), ""]
QUESTIONS = [("where", "the cat sat on the mat"), ("a", "half a house " * 9)]
LABELS = ("ham", "spam", "other")


@pytest.fixture
def export(tiny_spm_model, tmp_path):
    """Exports a model for LiteRT; returns the paths of both."""
    config = dataclasses.replace(
        TINY_CONFIG, hidden_size=64, intermediate_size=256
    )

    def make(model_class, known=None, *, values=None, **sizes):
        model = model_class(config, **sizes)
        rng = np.random.default_rng(3)
        for weight in model.weights:
            noise = rng.standard_normal(weight.shape).astype("f")
            weight.assign_add(noise / np.sqrt(weight.shape[0]))
        source = tmp_path / "checkpoint"
        write_checkpoint(
            source,
            model,
            vocabulary=str(tiny_spm_model),
            metadata=known or Metadata(),
        )
        done = saved_model.export(
            make_config(
                tmp_path / "served", source, format="litert", **(values or {})
            )
        )
        return str(source), done.path

    return make


# `tests/heads` has every head.
@pytest.mark.parametrize(
    ("num_labels", "known"),
    [
        (1, Metadata(target_mean=40.0, target_scale=9.0)),
        (
            3,
            Metadata(
                labels=LABELS, multi_label=True, thresholds=(0.1, 0.5, 0.9)
            ),
        ),
    ],
    ids=["regression", "several_labels"],
)
def test_every_kind_of_classifier_answers_as_its_checkpoint(
    num_labels, known, export
):
    source, exported = export(
        albert_tf.ClassifierModel, known, num_labels=num_labels
    )

    expected = albert_tf.load_predictor(source).predict(TEXTS)

    found = albert_tf.load_predictor(exported).predict(TEXTS)
    assert found == near(expected)


def test_equal_widths_and_the_exact_gelu(export):
    def make_model(config):
        return albert_tf.AlbertModel(
            dataclasses.replace(
                config, embedding_size=64, hidden_act="gelu_erf"
            )
        )

    source, exported = export(make_model)

    for one, other in zip(
        albert_tf.load_predictor(source).predict(TEXTS),
        albert_tf.load_predictor(exported).predict(TEXTS),
        strict=True,
    ):
        assert other["vector"] == near(one["vector"])


def test_int8_is_a_quarter_of_the_size_and_near(export):
    make = functools.partial(
        export, albert_tf.ClassifierModel, Metadata(labels=LABELS), num_labels=3
    )
    source, full = make()
    _, small = make(values={"quantize": "int8"})

    expected = albert_tf.load_predictor(source).predict(TEXTS)

    found = albert_tf.load_predictor(small).predict(TEXTS)
    for one, other in zip(found, expected, strict=True):
        assert one != other
        assert one["probabilities"] == near(other["probabilities"], 0.05)
    sizes = [
        os.path.getsize(os.path.join(path, "model.tflite"))
        for path in (small, full)
    ]
    assert sizes[0] < 0.5 * sizes[1]


def test_it_keeps_its_lengths_and_is_no_checkpoint(export):
    values = {"max_seq_length": 16, "max_answer_length": 1}
    _, exported = export(albert_tf.SpanModel, values=values)

    span = albert_tf.load_predictor(exported)

    assert span.data.lengths.max_seq_length == 16
    for answer in span.predict(QUESTIONS):
        assert " " not in answer["answer"]
    assert {*os.listdir(exported)} == {
        "albert_config.json",
        "metadata.json",
        "model.tflite",
        "tiny.model",
    }
    with pytest.raises(ValueError, match="an export for LiteRT or ONNX, which"):
        albert_tf.load_model(exported)
    with pytest.raises(ValueError, match="no encoder head. It has: span"):
        albert_tf.load_predictor(exported, head="encoder")
    tokenizer = albert_tf.load_tokenizer(exported)
    assert len(tokenizer.encode("a house")) > 0
