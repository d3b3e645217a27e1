import dataclasses
import os
import pathlib

import numpy as np
import pytest

from albert_tf.checkpoints import huggingface, load, tf1, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig
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
    tf1.write(tmp_path / "model", encoder)

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
    tf1.write(newest, worse | {"global_step": np.int64(9)})

    assert load.global_step(tmp_path) == 9
    best = {"global_step": np.int64(5)}
    tf1.write(tmp_path / "best" / "model.ckpt", arrays | best)
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
    tf1.write(without, {"x": np.ones(1, "float32")})

    assert load.global_step(prefix) == 7
    assert load.global_step(without) == 0


_PARITY = pathlib.Path(__file__).resolve().parents[1] / "parity"


def _weights(model):
    named = variable_names.variables_by_tf1_name(model.weights)
    return {name: np.asarray(variable) for name, variable in named.items()}


def _assert_same(ours, theirs):
    assert set(ours) == set(theirs)
    for name, array in theirs.items():
        np.testing.assert_array_equal(ours[name], array, err_msg=name)


@pytest.mark.parametrize("name", ["model_base", "model_groups"])
def test_loads_the_weights_of_the_original(name):
    folder = _PARITY / name
    config = AlbertConfig.from_json_file(folder / "albert_config.json")
    model = PretrainingModel(config)

    assert load.load_checkpoint(model, folder) == []

    stored = {
        name.removeprefix("module/"): array
        for name, array in tf1.read(folder).items()
    }
    _assert_same(
        _weights(model),
        {
            name: array
            for name, array in stored.items()
            if not variable_names.is_training_state(name)
        },
    )


@pytest.mark.parametrize("strategy", ["attention", "ffn", "none"])
def test_every_sharing_strategy_goes_out_and_in(
    tiny_config, strategy, tmp_path
):
    config = dataclasses.replace(
        tiny_config, parameter_sharing=strategy, inner_group_num=2
    )
    saved = _weights(PretrainingModel(config, seed=1))
    tf1.write(tmp_path / "model", saved)
    model = PretrainingModel(config, seed=2)

    load.load_checkpoint(model, tmp_path)

    _assert_same(_weights(model), saved)


def test_heads_that_the_model_has_not_are_listed(prefix, tiny_config, arrays):
    model = AlbertModel(tiny_config)

    unused = load.load_checkpoint(model, prefix)

    assert unused == sorted(n for n in arrays if n.startswith("cls/"))
    assert len(unused) == 7


def test_a_head_that_the_checkpoint_has_not_must_be_allowed(
    tmp_path, tiny_config, arrays
):
    encoder = {n: a for n, a in arrays.items() if n.startswith("bert/")}
    tf1.write(tmp_path / "model", encoder)
    model = PretrainingModel(tiny_config, seed=2)
    heads = {n: a for n, a in _weights(model).items() if n not in encoder}

    with pytest.raises(ValueError, match="lacks 7.*allow_new_heads=True"):
        load.load_checkpoint(model, tmp_path)
    load.load_checkpoint(model, tmp_path, allow_new_heads=True)

    _assert_same(_weights(model), encoder | heads)


def test_half_a_head_is_an_error_even_so(tmp_path, tiny_config, arrays):
    del arrays["cls/predictions/output_bias"]
    tf1.write(tmp_path / "model", arrays)

    with pytest.raises(
        ValueError, match="lacks 1.*cls/predictions/output_bias"
    ):
        load.load_checkpoint(
            PretrainingModel(tiny_config), tmp_path, allow_new_heads=True
        )


@pytest.mark.parametrize(("stored", "wanted"), [(1, 2), (2, 1)])
def test_every_group_may_take_the_weights_of_the_first(
    tiny_config, tmp_path, stored, wanted
):
    configs = [
        dataclasses.replace(tiny_config, num_hidden_groups=number)
        for number in (stored, wanted)
    ]
    source = _weights(PretrainingModel(configs[0], seed=1))
    tf1.write(tmp_path / "model", source)
    model = PretrainingModel(configs[1], seed=2)

    load.load_checkpoint(model, tmp_path, from_group_0=True)

    loaded = _weights(model)
    assert any(f"group_{wanted - 1}/" in name for name in loaded)
    for name, array in loaded.items():
        first = name.replace("/group_1/", "/group_0/")
        np.testing.assert_array_equal(array, source[first], err_msg=name)


def _missing(arrays):
    del arrays["bert/pooler/dense/bias"]


def _left_over(arrays):
    arrays["bert/encoder/transformer/group_1/x"] = np.ones(1, "float32")


def _misshapen(arrays):
    arrays["bert/pooler/dense/bias"] = np.ones(9, "float32")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_missing, "lacks 1 variables.*bert/pooler/dense/bias.*Use the config"),
        (_left_over, "has 1 variables that the model has not.*group_1/x"),
        (_misshapen, r"bert/pooler/dense/bias is \[9\], wanted \[8\]"),
    ],
)
def test_what_does_not_fit_is_named_and_changes_nothing(
    tmp_path, tiny_config, arrays, damage, words
):
    damage(arrays)
    tf1.write(tmp_path / "model", arrays)
    model = PretrainingModel(tiny_config, seed=2)
    before = _weights(model)

    with pytest.raises(ValueError, match=words):
        load.load_checkpoint(model, tmp_path)

    _assert_same(_weights(model), before)


def test_long_lists_of_names_are_cut(tmp_path, tiny_config):
    tf1.write(tmp_path / "model", {"x": np.ones(1, "float32")})

    with pytest.raises(ValueError, match="lacks 32 variables.*and 27 more"):
        load.load_checkpoint(PretrainingModel(tiny_config), tmp_path)
