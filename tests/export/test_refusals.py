"""What an export refuses, and the words that name it."""

import dataclasses
import os

import numpy as np
import pytest

from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.export import saved_model, version_folder
from albert_tf.export.export_config import ExportConfig
from tests.export.configs import base_config, make_config

LITERT = {"format": "litert"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"export_dir": ""}, "--init_checkpoint and --export_dir must be"),
        ({"task": "poetry"}, "`task` must be one of encoder.*task='poetry'"),
        ({"precision": "int8"}, "`precision` must be one of float32, bfloat16"),
        ({"export_version": 0}, "`export_version` must be .* at least 1"),
        ({"num_choices": 1}, "`num_choices` must be .* at least 2.*=1"),
        ({"exit_patience": -1}, "`exit_patience` must be .*at least 0"),
        (
            {"task": "squad", "exit_patience": 2},
            "--exit_patience is for .*classifier or race",
        ),
        (
            {"task": "race", "labels": ("a",)},
            "--labels is for --task=classifier only",
        ),
        (
            {"task": "race", "null_from_cls": True},
            "--null_from_cls is for --task=squad only",
        ),
        ({"format": "tflite"}, "`format` must be one of .*'tflite'"),
        ({**LITERT, "precision": "bfloat16"}, "in float32 .*=bfloat16"),
        ({**LITERT, "task": "race"}, "--format=litert is for encoder"),
        (
            {**LITERT, "task": "classifier", "exit_patience": 2},
            "without `exit_patience`.*exit_patience=2",
        ),
        ({"quantize": "int4", **LITERT}, "`quantize` must be one of int8"),
        ({"quantize": "int8"}, "needs --format=litert.*=saved_model"),
        (
            {**LITERT, "task": "squad", "null_from_cls": True},
            "without .*null_from_cls=True",
        ),
        (
            {"task": "race", "max_seq_length": 64, "max_qa_length": 61},
            "`max_qa_length` must .* at most 60",
        ),
        (
            {"task": "squad", "max_seq_length": 64, "max_query_length": 61},
            "`max_query_length` must .* at most 60",
        ),
        ({"vocab_file": "words"}, r"`vocab_file`.* must end in \.txt.*'words'"),
        ({"task": "squad", "n_best_size": 0}, "`n_best_size` must .* 1"),
    ],
)
def test_impossible_settings(values, words):
    with pytest.raises(ValueError, match=words):
        ExportConfig(**{"init_checkpoint": "a", "export_dir": "b"} | values)


def check_before_training(config, albert_config):
    """The weights of a run are not there before it trains."""
    run = {"init_checkpoint": "not/there"}
    saved_model.check(dataclasses.replace(config, **run), albert_config)


def export(config, albert_config):
    saved_model.export(config, albert_config=albert_config)


@pytest.mark.parametrize("check", [check_before_training, export])
@pytest.mark.parametrize(
    ("values", "changes", "words"),
    [
        ({"max_seq_length": 4}, {}, "from 5 to .*=64.*max_seq_length=4"),
        ({"max_seq_length": 65}, {}, "from 5 to .*=64.*max_seq_length=65"),
        ({"spm_model_file": None}, {}, "No vocabulary is given"),
        ({}, {"vocab_size": 299}, "has 300 tokens.*vocab_size=299"),
        ({}, {"vocab_size": 301}, "has 300 tokens.*vocab_size=301"),
        ({"export_dir": __file__}, {}, "cannot be written"),
        ({"export_dir": "gs://bucket"}, {}, "'gs://bucket' is a remote path"),
    ],
)
def test_exports_that_cannot_succeed(
    check, values, changes, words, tiny_spm_model, tmp_path
):
    config = make_config(tmp_path / "x", tiny_spm_model, **values)

    with pytest.raises(ValueError, match=words):
        check(config, base_config(**changes))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "values",
    [
        {"task": "race", "max_qa_length": 61},
        {"task": "squad", "max_query_length": 61},
    ],
    ids=str,
)
def test_lengths_of_a_task_are_checked_before_training(
    values, tiny_spm_model, tmp_path
):
    config = make_config(tmp_path, tiny_spm_model, **values)

    # The model takes 64 tokens.
    with pytest.raises(ValueError, match="must .* at most 60"):
        check_before_training(config, base_config())


@pytest.mark.parametrize(
    ("task", "heads", "words"),
    [
        ("classifier", [], "no head for --task=classifier.*Received: none"),
        (
            "squad",
            ["output_weights"],
            "Expected: cls/squad or beam. Received: task",
        ),
    ],
)
def test_a_checkpoint_without_a_head_for_the_task(task, heads, words):
    source = Checkpoint(arrays={name: np.zeros(3) for name in heads})
    config = ExportConfig(init_checkpoint="a", export_dir="b", task=task)

    with pytest.raises(ValueError, match=words):
        saved_model._find_head(config, source)


def test_a_version_is_not_written_over(tmp_path):
    (tmp_path / "4").mkdir()

    with pytest.raises(
        ValueError, match="4 exists already.*Pass another.*export_version=4"
    ):
        version_folder.write_version(tmp_path, 4, os.listdir, batching="")
