"""`.keras` files as checkpoints: what they say, and what becomes of them."""

import shutil
import subprocess
import sys
import zipfile

import keras
import pytest

from albert_tf.checkpoints import discovery, load
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.sequence_models import ClassifierModel
from tests import tiny
from tests.checkpoints.weights import assert_same, save, weights_of


def test_a_head_of_a_keras_file_can_be_chosen(tmp_path, tiny_config):
    model = ClassifierModel(tiny_config, num_labels=3, seed=1)
    model.save(tmp_path / "model.keras")

    encoder = load.load_model(tmp_path / "model.keras", head="encoder")
    new = load.load_model(tmp_path / "model.keras", num_labels=2)

    assert_same(encoder, model.albert)
    assert new.task_head.output_bias.shape == (2,)
    with pytest.raises(ValueError, match="has no span head. It has: task"):
        load.load_model(tmp_path / "model.keras", head="span")


def test_beside_a_keras_file_is_the_vocabulary_that_it_knows(
    tmp_path, tiny_spm_model
):
    shutil.copy(tiny_spm_model, tmp_path / "spiece.model")
    tokenizer = discovery.load_tokenizer(spm_model_file=tiny_spm_model)
    config = tiny.config(vocab_size=tokenizer.vocab_size)
    model = AlbertModel(config)
    model.save(tmp_path / "unknown.keras")
    model.metadata = {"tokenizer_hash": tokenizer.fingerprint}
    model.save(tmp_path / "model.keras")

    source = discovery.open(tmp_path / "model.keras")

    assert source.config == config
    found = discovery.load_tokenizer(tmp_path / "model.keras")
    assert found.fingerprint == tokenizer.fingerprint
    # Whatever lies there may be that of another model.
    with pytest.raises(ValueError, match="no one vocabulary.*unknown.keras"):
        discovery.load_tokenizer(tmp_path / "unknown.keras")


def test_a_keras_file_of_another_model_has_no_encoder(tmp_path, tiny_config):
    ids = keras.Input([None], dtype="int32")
    pooled = AlbertModel(tiny_config)({"input_ids": ids})["pooled_output"]
    path = tmp_path / "model.keras"
    keras.Model(ids, keras.layers.Dense(2)(pooled)).save(path)

    with pytest.raises(ValueError, match="holds a Functional and not one of"):
        load.load_model(path, head="encoder")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other.txt", "")
    with pytest.raises(ValueError, match=r"model.keras' is damaged"):
        load.load_model(path, head="encoder")


def test_a_keras_file_is_loaded_where_nothing_was_imported(
    tmp_path, tiny_config
):
    ClassifierModel(tiny_config, num_labels=3).save(tmp_path / "model.keras")
    code = (
        "import albert_tf, sys\n"
        "print(type(albert_tf.load_model(sys.argv[1])).__name__)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "model.keras"],
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout == "ClassifierModel\n"


def test_labels_stay_with_the_model(tmp_path, tiny_config):
    model = ClassifierModel(tiny_config, num_labels=3, seed=1)
    known = {"labels": ("ham", "spam", "grün"), "multi_label": True}
    text = {"do_lower_case": False}
    save(tmp_path, tiny_config, weights_of(model), **known, **text)

    load.load_model(tmp_path).save(tmp_path / "model.keras")
    again = load.load_model(tmp_path / "model.keras")
    new = load.load_model(tmp_path / "model.keras", num_labels=2)

    assert again.metadata["labels"] == [*known["labels"]]
    found = discovery.open(tmp_path / "model.keras").metadata
    assert found == Metadata(head="classifier", **known, **text)
    assert new.metadata == text
