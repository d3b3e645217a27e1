"""A checkpoint becomes a SavedModel: its files, its size, what is refused."""

import dataclasses
import json
import os
import pathlib
import shutil

import pytest
import tensorflow as tf

from albert_tf import config as config_lib
from albert_tf.config import AlbertConfig
from albert_tf.export import saved_model, signature
from albert_tf.export.export_config import ExportConfig
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import ClassifierModel

BASE = pathlib.Path(__file__).resolve().parents[1] / "parity" / "model_base"
MAX_BYTES = 50_000_000


def make_config(folder, vocabulary, **values):
    return ExportConfig(
        **{
            "init_checkpoint": str(BASE),
            "export_dir": str(folder),
            "spm_model_file": str(vocabulary),
        }
        | values
    )


def base_config(**changes):
    values = json.loads((BASE / "albert_config.json").read_text())
    return AlbertConfig.from_dict(values | changes)


def test_what_lies_in_the_folder(exported_encoder, tiny_spm_model):
    summary = exported_encoder.summary
    path = pathlib.Path(summary.path)

    config = json.loads((path / "assets" / "albert_config.json").read_text())
    assert config["hidden_size"] == 16
    [vocabulary] = (path / "assets").glob("*.model")
    assert vocabulary.read_bytes() == tiny_spm_model.read_bytes()
    assert path.name == "1"
    assert (path.parent / "batching_parameters.txt").exists()
    assert summary.signatures == (
        "serving_default",
        "tokens",
        "mlm",
        "fill_mask",
        "sop",
    )
    assert summary.num_bytes == sum(
        file.stat().st_size for file in path.rglob("*") if file.is_file()
    )
    assert str(summary).startswith(
        "signatures serving_default, tokens, mlm, fill_mask, sop\n"
        f"written    {path} ("
    )


def test_arrays_without_a_use_are_listed(
    tiny_config, tiny_spm_model, tmp_path, write_checkpoint
):
    model = ClassifierModel(tiny_config, num_labels=2)
    write_checkpoint(tmp_path / "run", model, vocabulary=str(tiny_spm_model))
    config = ExportConfig(
        init_checkpoint=str(tmp_path / "run"), export_dir=str(tmp_path / "x")
    )

    summary = saved_model.export(config)

    assert summary.signatures == ("serving_default", "tokens")
    assert set(summary.left_out) == {"output_weights", "output_bias"}
    assert "left out   output_bias (the task has no use for it)\n" in str(
        summary
    )


def test_a_forbidden_operation_is_named_and_nothing_is_written(
    tiny_spm_model, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        signature,
        "ALLOWED_OPERATIONS",
        signature.ALLOWED_OPERATIONS - {"Tanh"},
    )

    with pytest.raises(
        ValueError, match="'serving_default' contains Tanh, which"
    ):
        saved_model.export(make_config(tmp_path / "served", tiny_spm_model))
    assert os.listdir(tmp_path) == []


def test_an_operation_that_litert_lacks():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def call(text):
        return {"x": tf.strings.unicode_decode(text, "UTF-8").values}

    with pytest.raises(
        ValueError, match="'tokens' cannot be converted to LiteRT.*--tflite"
    ):
        saved_model.to_litert(call.get_concrete_function(), tf.Module())


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
        ({"export_dir": __file__}, {}, "cannot be written"),
    ],
)
def test_what_is_refused(
    check, values, changes, words, tiny_spm_model, tmp_path
):
    config = make_config(tmp_path / "x", tiny_spm_model, **values)

    with pytest.raises(ValueError, match=words):
        check(config, base_config(**changes))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("task", "words"),
    [("race", "`max_qa_length`"), ("squad", "`max_query_length`")],
)
def test_lengths_of_a_task_are_checked_before_training(
    task, words, tiny_spm_model, tmp_path
):
    config = make_config(tmp_path, tiny_spm_model, task=task)

    # The model takes 64 tokens.
    with pytest.raises(ValueError, match=f"must be greater than {words}"):
        check_before_training(config, base_config())


def test_what_can_be_exported_passes_the_check(tiny_spm_model, tmp_path):
    config = make_config(tmp_path / "x", tiny_spm_model)

    check_before_training(config, base_config())

    assert os.listdir(tmp_path) == []


def test_another_config_file_is_read(tiny_spm_model, tmp_path):
    path = tmp_path / "config.json"
    base_config(max_position_embeddings=9).to_json_file(path)
    config = make_config(
        tmp_path / "x",
        tiny_spm_model,
        albert_config_file=str(path),
        max_seq_length=10,
    )

    with pytest.raises(ValueError, match="max_position_embeddings=9"):
        saved_model.export(config)


def test_another_vocabulary_than_that_beside_the_checkpoint(
    tiny_spm_model, tiny_chinese_vocabulary, tmp_path
):
    shutil.copytree(BASE, tmp_path / "base")
    shutil.copyfile(tiny_spm_model, tmp_path / "base" / "beside.model")
    config = ExportConfig(
        init_checkpoint=str(tmp_path / "base"),
        export_dir=str(tmp_path / "x"),
        vocab_file=str(tiny_chinese_vocabulary),
    )

    with pytest.raises(ValueError, match=r"checkpoint, .*/beside\.model"):
        saved_model.export(config)
    assert not (tmp_path / "x").exists()


@pytest.fixture(scope="module")
def large_checkpoint(tmp_path_factory, write_checkpoint):
    """A checkpoint of the size of ALBERT base, with new weights."""
    model = PretrainingModel(config_lib.published_config("base_v2"))
    folder = tmp_path_factory.mktemp("base")
    write_checkpoint(folder, model)
    return folder


@pytest.mark.parametrize(
    ("precision", "max_bytes"),
    [
        ("float32", MAX_BYTES),
        pytest.param(
            "bfloat16", MAX_BYTES // 2 + 2_000_000, marks=pytest.mark.slow
        ),
    ],
)
def test_base_weighs_what_its_weights_weigh(
    precision, max_bytes, large_checkpoint, shared_data, tmp_path
):
    summary = saved_model.export(
        make_config(
            tmp_path,
            shared_data / "data" / "spm" / "30k-clean.model",
            init_checkpoint=str(large_checkpoint),
            precision=precision,
        )
    )

    assert summary.num_bytes < max_bytes
