import dataclasses
import os

import numpy as np
import pytest

from albert_tf.checkpoints import (
    huggingface,
    load,
    tf1_checkpoint,
    variable_names,
)
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel


def test_a_tf1_checkpoint_is_recognised(prefix, tiny_config, arrays):
    for path in (prefix, f"{prefix}.index", os.path.dirname(prefix)):
        model = PretrainingModel(tiny_config, seed=2)

        assert load.load_checkpoint(model, path) == []

        named = variable_names.variables_by_tf1_name(model.weights)
        for name, variable in named.items():
            np.testing.assert_array_equal(variable, arrays[name])


def test_unused_heads_are_returned(prefix, tiny_config):
    unused = load.load_checkpoint(AlbertModel(tiny_config), prefix)

    assert "cls/predictions/output_bias" in unused


def test_new_heads_may_be_allowed(tmp_path, tiny_config, arrays):
    encoder = {n: a for n, a in arrays.items() if n.startswith("bert/")}
    tf1_checkpoint.write(tmp_path / "model", encoder)

    load.load_checkpoint(
        PretrainingModel(tiny_config), tmp_path, allow_new_heads=True
    )


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pkl"])
def test_pickles_are_refused(tmp_path, tiny_config, name):
    file = tmp_path / name
    file.touch()

    for path in (file, tmp_path):
        with pytest.raises(ValueError, match="is a pickle.*Accepted: a TF1"):
            load.load_checkpoint(AlbertModel(tiny_config), path)


@pytest.mark.parametrize("name", ["model.weights.h5", "model.keras"])
def test_other_formats_are_refused_by_name(tmp_path, tiny_config, name):
    file = tmp_path / name
    file.touch()

    for path in (file, tmp_path):
        with pytest.raises(ValueError, match=f"holds {name}.*Accepted: a TF1"):
            load.load_checkpoint(AlbertModel(tiny_config), path)


def test_a_path_without_anything_is_an_error(tmp_path, tiny_config):
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        load.load_checkpoint(AlbertModel(tiny_config), tmp_path / "nothing")


def test_the_folder_of_a_run_stands_for_its_best_checkpoint(
    tmp_path, tiny_config, arrays
):
    worse = {name: array + 1 for name, array in arrays.items()}
    newest = tmp_path / "checkpoints" / "step-00000009" / "model.ckpt"
    tf1_checkpoint.write(newest, worse | {"global_step": np.int64(9)})

    assert load.global_step(tmp_path) == 9
    best = {"global_step": np.int64(5)}
    tf1_checkpoint.write(tmp_path / "best" / "model.ckpt", arrays | best)
    model = PretrainingModel(tiny_config, seed=2)
    load.load_checkpoint(model, tmp_path)

    assert load.global_step(tmp_path) == 5
    bias = "bert/pooler/dense/kernel"
    named = variable_names.variables_by_tf1_name(model.weights)
    np.testing.assert_array_equal(named[bias], arrays[bias])


def test_a_hugging_face_folder_is_recognised(tmp_path, tiny_config, arrays):
    source = Checkpoint(arrays=arrays, config=tiny_config)
    huggingface.write(str(tmp_path), source)
    model = PretrainingModel(tiny_config, seed=2)

    assert load.recognise(tmp_path) == "huggingface"
    assert load.load_checkpoint(model, tmp_path) == []

    assert load.global_step(tmp_path) == 0
    named = variable_names.variables_by_tf1_name(model.weights)
    for name, variable in named.items():
        np.testing.assert_array_equal(variable, arrays[name])


@pytest.mark.parametrize(
    "change", [{"hidden_act": "relu"}, {"num_attention_heads": 4}]
)
def test_weights_of_another_meaning_are_refused(
    tmp_path, tiny_config, arrays, change
):
    huggingface.write(
        str(tmp_path), Checkpoint(arrays=arrays, config=tiny_config)
    )
    model = PretrainingModel(dataclasses.replace(tiny_config, **change))

    with pytest.raises(ValueError, match=f"made with {next(iter(change))}="):
        load.load_checkpoint(model, tmp_path)


def test_the_step_of_a_checkpoint_is_known(prefix, tmp_path):
    without = tmp_path / "without"
    tf1_checkpoint.write(without, {"x": np.ones(1, "float32")})

    assert load.global_step(prefix) == 7
    assert load.global_step(without) == 0
