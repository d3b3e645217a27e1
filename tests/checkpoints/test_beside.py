"""Where a checkpoint is, and what lies beside it."""

import dataclasses
import os
import shutil

import pytest

import albert_tf
from albert_tf.checkpoints import beside, huggingface, keras_hub, tf1
from albert_tf.checkpoints.metadata import Metadata
from tests.checkpoints.weights import PARITY

_DATA = ".data-00000-of-00001"


@pytest.mark.parametrize("ending", ["", ".index", _DATA])
def test_a_checkpoint_is_its_prefix_file_or_folder(prefix, ending):
    assert beside.resolve(prefix + ending) == prefix
    assert beside.resolve(os.path.dirname(prefix)) == prefix


def test_a_folder_of_several_names_the_right_one_in_a_file(prefix, arrays):
    folder = os.path.dirname(prefix)
    other = os.path.join(folder, "model.ckpt-9")
    tf1.write(other, arrays)
    with open(os.path.join(folder, "checkpoint"), "w") as file:
        file.write('model_checkpoint_path: "/gone/model.ckpt-7"\n')

    assert beside.resolve(folder) == prefix


@pytest.mark.parametrize("place", ["best", "checkpoints/step-00000007"])
def test_the_config_of_a_run_is_found(source, tmp_path, place):
    folder = tmp_path / place
    folder.mkdir(parents=True)
    tf1.write_ours(str(folder), source)
    (folder / "albert_config.json").rename(tmp_path / "albert_config.json")

    for path in (tmp_path, folder):
        assert beside.describe(path).config == source.config


@pytest.mark.parametrize(
    "write",
    [tf1.write_ours, tf1.write_released, huggingface.write, keras_hub.write],
)
def test_a_folder_of_any_format_says_what_it_has(
    source, tmp_path, tiny_spm_model, write
):
    source = dataclasses.replace(
        source,
        vocabulary=str(tiny_spm_model),
        metadata=Metadata(do_lower_case=True),
    )
    write(str(tmp_path), source)

    found = beside.describe(tmp_path)

    assert found.config == source.config
    assert (
        found.load_tokenizer().fingerprint
        == source.load_tokenizer().fingerprint
    )
    assert not found.arrays


@pytest.mark.parametrize("place", ["best", "checkpoints/step-00000007"])
def test_the_vocabulary_of_a_run_is_found(tmp_path, tiny_spm_model, place):
    folder = tmp_path / place
    shutil.copytree(PARITY / "model_base", folder)
    path = shutil.copyfile(tiny_spm_model, tmp_path / "spiece.model")

    for name in (tmp_path, folder, folder / "model.ckpt-best"):
        assert beside.describe(name).vocabulary == str(path)


@pytest.mark.parametrize("other", ["b.model", "vocab.txt"])
def test_several_vocabularies_are_none(tmp_path, source, tiny_spm_model, other):
    source = dataclasses.replace(source, vocabulary=str(tiny_spm_model))
    tf1.write_ours(str(tmp_path), source)
    (tmp_path / other).touch()

    with pytest.raises(ValueError, match=f"{other}.*which of them is unknown"):
        albert_tf.load_tokenizer(tmp_path)


def test_the_tokenizer_of_a_folder(source, tmp_path, tiny_spm_model):
    source = dataclasses.replace(
        source,
        vocabulary=str(tiny_spm_model),
        metadata=Metadata(do_lower_case=False),
    )
    huggingface.write(str(tmp_path), source)

    found = albert_tf.load_tokenizer(tmp_path)

    assert found.fingerprint == source.load_tokenizer().fingerprint
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
