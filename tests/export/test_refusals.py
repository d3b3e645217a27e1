"""What an export refuses, and the words that name it."""

import dataclasses
import os
import tempfile

import numpy as np
import pytest

from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.export import saved_model
from tests.exported_models import base_config, make_config

LITERT, ONNX = {"format": "litert"}, {"format": "onnx"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"folder": ""}, "`export_dir` must be given"),
        ({"precision": "int8"}, "`precision` must be one of float32, bfloat16"),
        ({"export_version": 0}, "`export_version` must be .* at least 1"),
        ({"head": "poetry"}, "`head` must be one of encoder.*head='poetry'"),
        (
            {"head": "multiple_choice", "num_choices": 1},
            "`num_choices` must be .* at least 2.*=1",
        ),
        (
            {"head": "classifier", "exit_patience": -1},
            "`exit_patience` must be .*at least 0",
        ),
        (
            {"head": "span", "exit_patience": 2},
            "--exit_patience is for --head=classifier or multiple_choice only",
        ),
        (
            {"head": "multiple_choice", "labels": ("a",)},
            "--labels is for --head=classifier only",
        ),
        (
            {"head": "multiple_choice", "null_from_cls": True},
            "--null_from_cls is for --head=span or beam_span only",
        ),
        ({"format": "tflite"}, "`format` must be one of .*'tflite'"),
        ({"depth": ("3", "x")}, "must be whole numbers.*=3,x"),
        ({**LITERT, "depth": ("1", "2")}, "takes one --depth"),
        ({**LITERT, "precision": "bfloat16"}, "is in float32.*=bfloat16"),
        (
            {**LITERT, "head": "multiple_choice"},
            "--format=litert is for encoder",
        ),
        (
            {**LITERT, "head": "classifier", "exit_patience": 2},
            "without `exit_patience`.*exit_patience=2",
        ),
        ({"quantize": "int4", **LITERT}, "`quantize` must be one of int8"),
        ({"quantize": "int8"}, "needs --format=litert or onnx.*=saved_model"),
        ({"compare_file": "texts"}, "--compare_file needs --format=litert"),
        ({**ONNX, "depth": ("1", "2")}, "--format=onnx takes one --depth"),
        ({**ONNX, "precision": "bfloat16"}, "onnx is in float32.*=bfloat16"),
        ({**ONNX, "head": "beam_span"}, "--format=onnx is for encoder, pre"),
        ({**ONNX, "head": "multiple_choice"}, "--format=onnx is for encoder"),
        (
            {**ONNX, "head": "classifier", "exit_patience": 2},
            "onnx is without `exit_patience`.*exit_patience=2",
        ),
        (
            {**LITERT, "head": "span", "null_from_cls": True},
            "without .*null_from_cls=True",
        ),
        (
            {
                "head": "multiple_choice",
                "max_seq_length": 64,
                "max_qa_length": 61,
            },
            "`max_qa_length` must .* at most 60",
        ),
        (
            {"head": "span", "max_seq_length": 64, "max_query_length": 61},
            "`max_query_length` must .* at most 60",
        ),
        ({"head": "span", "n_best_size": 0}, "`n_best_size` must .* 1"),
    ],
)
def test_impossible_settings(values, words):
    with pytest.raises(ValueError, match=words):
        make_config(**{"folder": "a"} | values)


def check_before_training(config, albert_config):
    """The weights of a run are not there before it trains."""
    run = {"init_checkpoint": "not/there"}
    source = Checkpoint(config=albert_config)
    saved_model.check(dataclasses.replace(config, **run), source)


def export(config, albert_config):
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/config.json"
        albert_config.to_json_file(path)
        saved_model.export(dataclasses.replace(config, albert_config_file=path))


@pytest.mark.parametrize("check", [check_before_training, export])
@pytest.mark.parametrize(
    ("values", "changes", "words"),
    [
        (
            {"head": "encoder", "max_seq_length": 4},
            {},
            "at least 5 .*at most 64.*length=4",
        ),
        (
            {"head": "encoder", "max_seq_length": 65},
            {},
            "at least 5 .*at most 64.*length=65",
        ),
        ({"spm_model_file": None}, {}, "no one vocabulary"),
        ({}, {"vocab_size": 299}, "has 300 tokens.*vocab_size=299"),
        ({}, {"vocab_size": 301}, "has 300 tokens.*vocab_size=301"),
        ({"folder": __file__}, {}, "cannot be written"),
        ({"folder": "gs://bucket"}, {}, "'gs://bucket' is a remote path"),
    ],
)
def test_exports_that_cannot_succeed(
    check, values, changes, words, tiny_spm_model, tmp_path
):
    config = make_config(
        **{"folder": tmp_path / "x", "spm_model_file": str(tiny_spm_model)}
        | values
    )

    with pytest.raises(ValueError, match=words):
        check(config, base_config(**changes))
    assert os.listdir(tmp_path) == []


def test_lengths_of_a_task_are_checked_before_training(
    tiny_spm_model, tmp_path
):
    config = make_config(
        tmp_path,
        spm_model_file=str(tiny_spm_model),
        head="span",
        max_query_length=61,
    )

    # The model takes 64 tokens.
    with pytest.raises(ValueError, match="must .* at most 60"):
        check_before_training(config, base_config())


@pytest.mark.parametrize(
    ("asked_for", "groups", "words"),
    [
        ({"head": "classifier"}, [], "no classifier head. It has: none"),
        ({"head": "span"}, ["output_weights"], "no span head. It has: task"),
        ({"head": "race"}, [], "has no head for race. It has: encoder"),
    ],
)
def test_a_checkpoint_without_the_head(asked_for, groups, words):
    source = Checkpoint(arrays={name: np.zeros(3) for name in groups})
    config = make_config("a", **asked_for)

    with pytest.raises(ValueError, match=words):
        saved_model._find_spec(config, source)


@pytest.mark.parametrize(
    ("asked_for", "groups", "head"),
    [
        ({"head": "encoder"}, [], "encoder"),
        ({"head": "encoder"}, ["cls/predictions/output_bias"], "encoder"),
        ({"head": "multiple_choice"}, ["output_weights"], "multiple_choice"),
        ({}, ["cls/predictions/output_bias"], "pretraining"),
        ({}, ["start_logits/dense/kernel"], "beam_span"),
        ({"head": "squad"}, ["start_logits/dense/kernel"], "beam_span"),
        ({"head": "squad"}, ["cls/squad/output_bias"], "span"),
        ({}, ["cls/squad/output_bias"], "span"),
    ],
)
def test_the_head_of_a_checkpoint(asked_for, groups, head):
    source = Checkpoint(arrays={name: np.zeros(3) for name in groups})

    found = saved_model._find_spec(make_config("a", **asked_for), source)

    assert found.head.name == head


@pytest.mark.parametrize(
    ("depth", "changes", "words"),
    [
        (5, {}, "`depth` must .*at least 1.*at most 4.*depth=5"),
        (0, {}, "at least 1.*depth=0"),
        (1, {"parameter_sharing": "none"}, "whose layers share all.*'none'"),
    ],
)
def test_depths_that_a_model_does_not_have(depth, changes, words):
    source = Checkpoint(config=base_config(**changes))

    with pytest.raises(ValueError, match=words):
        source.with_depth(depth)
