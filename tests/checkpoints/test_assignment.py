import dataclasses
import pathlib

import numpy as np
import pytest

from albert_tf.checkpoints import load, tf1_checkpoint, variable_names
from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel

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
        for name, array in tf1_checkpoint.read(folder).items()
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
    tf1_checkpoint.write(tmp_path / "model", saved)
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
    tf1_checkpoint.write(tmp_path / "model", encoder)
    model = PretrainingModel(tiny_config, seed=2)
    heads = {n: a for n, a in _weights(model).items() if n not in encoder}

    with pytest.raises(ValueError, match="lacks 7.*allow_new_heads=True"):
        load.load_checkpoint(model, tmp_path)
    load.load_checkpoint(model, tmp_path, allow_new_heads=True)

    _assert_same(_weights(model), encoder | heads)


def test_half_a_head_is_an_error_even_so(tmp_path, tiny_config, arrays):
    del arrays["cls/predictions/output_bias"]
    tf1_checkpoint.write(tmp_path / "model", arrays)

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
    tf1_checkpoint.write(tmp_path / "model", source)
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
    tf1_checkpoint.write(tmp_path / "model", arrays)
    model = PretrainingModel(tiny_config, seed=2)
    before = _weights(model)

    with pytest.raises(ValueError, match=words):
        load.load_checkpoint(model, tmp_path)

    _assert_same(_weights(model), before)


def test_long_lists_of_names_are_cut(tmp_path, tiny_config):
    tf1_checkpoint.write(tmp_path / "model", {"x": np.ones(1, "float32")})

    with pytest.raises(ValueError, match="lacks 32 variables.*and 27 more"):
        load.load_checkpoint(PretrainingModel(tiny_config), tmp_path)
