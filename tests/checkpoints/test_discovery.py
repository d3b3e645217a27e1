"""Where a checkpoint is, and what lies beside it."""

import dataclasses
import json
import os
import shutil

import pytest

import albert_tf
from albert_tf.checkpoints import discovery, huggingface, tf1
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from tests import tiny
from tests.checkpoints.weights import PARITY

_DATA = ".data-00000-of-00001"


@pytest.mark.parametrize("ending", ["", ".index", _DATA])
def test_a_checkpoint_is_its_prefix_file_or_folder(prefix, ending):
    assert tf1.resolve(prefix + ending) == prefix
    assert tf1.resolve(os.path.dirname(prefix)) == prefix


def test_a_folder_of_several_names_the_right_one_in_a_file(prefix, arrays):
    folder = os.path.dirname(prefix)
    other = os.path.join(folder, "model.ckpt-9")
    tf1.write(other, arrays)
    with open(os.path.join(folder, "checkpoint"), "w") as file:
        file.write('model_checkpoint_path: "/gone/model.ckpt-7"\n')

    assert tf1.resolve(folder) == prefix


@pytest.mark.parametrize("place", ["best", "checkpoints/step-00000007"])
def test_config_and_vocabulary_of_a_run_are_found(
    source, tmp_path, tiny_spm_model, place
):
    folder = tmp_path / place
    folder.mkdir(parents=True)
    tf1.write_ours(str(folder), source)
    (folder / "albert_config.json").rename(tmp_path / "albert_config.json")
    vocabulary = shutil.copyfile(tiny_spm_model, tmp_path / "spiece.model")

    for path in (tmp_path, folder, folder / "model.ckpt"):
        found = discovery.open(path)
        assert found.config == source.config
        assert found.vocabulary == str(vocabulary)


def test_the_tokenizer_of_a_folder(source, tmp_path, tiny_spm_model):
    source = dataclasses.replace(
        source,
        vocabulary=str(tiny_spm_model),
        metadata=Metadata(do_lower_case=False),
    )
    huggingface.write(str(tmp_path), source)

    found = albert_tf.load_tokenizer(tmp_path)

    assert found.fingerprint == source.tokenizer.fingerprint
    lower = albert_tf.load_tokenizer(tmp_path, do_lower_case=True)
    given = albert_tf.load_tokenizer(spm_model_file=tiny_spm_model)
    assert lower.fingerprint == given.fingerprint != found.fingerprint
    trained = dataclasses.replace(
        source, metadata=Metadata(tokenizer_hash=found.fingerprint)
    )
    run = tmp_path / "run"
    run.mkdir()
    tf1.write_ours(str(run), trained)
    assert albert_tf.load_tokenizer(run).fingerprint == found.fingerprint
    with pytest.raises(ValueError, match="trained with another tokenizer"):
        albert_tf.load_tokenizer(run, do_lower_case=True)
    with pytest.raises(ValueError, match="no one vocabulary beside"):
        albert_tf.load_tokenizer(PARITY / "model_base")


def test_several_vocabularies_of_a_run_are_named(tmp_path):
    shutil.copytree(PARITY / "model_base", tmp_path / "best")
    for name in ("a.model", "b.model"):
        (tmp_path / name).touch()

    with pytest.raises(ValueError, match="a.model, b.model.*is unknown"):
        albert_tf.load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"head": "span"}, "which only `load_predictor` runs"),
        ({}, "exported by another program"),
    ],
)
def test_an_export_for_litert_has_no_arrays(tmp_path, known, message):
    _write(tmp_path, metadata=known)
    (tmp_path / "model.tflite").touch()

    with pytest.raises(ValueError, match=message):
        discovery.open(tmp_path).arrays["output_bias"]


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"hidden_dropout_prob": 0.5}, True),
        ({"initializer_range": 0.1}, True),
        # The same layers, in other words.
        ({"parameter_sharing": "all", "num_hidden_groups": 2}, True),
        ({"num_hidden_layers": 3}, False),
    ],
)
def test_configs_that_make_the_same_outputs(change, same):
    known = tiny.config(num_hidden_layers=2, parameter_sharing="none")
    other = dataclasses.replace(known, **change)

    source = discovery.with_config(
        Checkpoint(config=known), other, may_change_layers=not same
    )

    assert source.config == other


# What is known of a checkpoint, beside it or in its run.


def _write(folder, **values):
    """Writes JSON files, by name without the ending."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (folder / f"{name}.json").write_text(json.dumps(value))


def _weights(run, place, **known):
    """Writes the files of weights, without arrays, and what is known."""
    _write(run / place, metadata=known)
    (run / place / "model.index").touch()


def test_files_of_transformers_beside_weights_of_tf1_are_read(tmp_path):
    names = {"id2label": {"0": "no", "1": "yes"}}
    (tmp_path / "model.ckpt.index").touch()
    (tmp_path / "config.json").write_text(json.dumps(names))
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')

    found = discovery.open(tmp_path)

    assert found.metadata.known() == {
        "do_lower_case": False,
        "labels": ("no", "yes"),
    }


def test_a_run_stands_for_its_best_weights(tmp_path):
    for place, threshold in (("checkpoints/step-00000007", 7.0), ("best", 5.0)):
        _weights(tmp_path, place, null_threshold=threshold)

        found = discovery.open(tmp_path)

        assert found.metadata.null_threshold == threshold
