import dataclasses
import functools

import keras
import numpy as np
import pytest

from albert_tf.checkpoints import (
    discovery,
    heads,
    huggingface,
    load,
    tensor_bundle,
    tf1,
)
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import ClassifierModel
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel
from tests.checkpoints.weights import assert_same, check_same, save, weights_of


def test_a_given_config_decides_what_gelu_means(tmp_path, source):
    huggingface.write(str(tmp_path), source)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"gelu_new"', '"gelu"'))
    model = PretrainingModel(source.config, seed=2)

    load.load_checkpoint(model, tmp_path)

    check_same(weights_of(model), source.arrays)
    assert_same(load.load_model(tmp_path, config=source.config), model)
    # In transformers, it is the exact one.
    assert load.load_model(tmp_path).config.hidden_act == "gelu_erf"


@pytest.mark.parametrize(("stored", "wanted"), [(1, 2), (2, 1)])
def test_every_group_may_take_the_weights_of_the_first(
    tiny_config, tmp_path, stored, wanted
):
    configs = [
        dataclasses.replace(tiny_config, num_hidden_groups=number)
        for number in (stored, wanted)
    ]
    source = weights_of(PretrainingModel(configs[0], seed=1))
    tf1.write(tmp_path / "model", source)
    model = PretrainingModel(configs[1], seed=2)

    load.load_checkpoint(model, tmp_path, from_group_0=True)

    loaded = weights_of(model)
    assert any(f"group_{wanted - 1}/" in name for name in loaded)
    for name, array in loaded.items():
        first = name.replace("/group_1/", "/group_0/")
        np.testing.assert_array_equal(array, source[first], err_msg=name)


# What is read.


@pytest.fixture
def arrays_read(monkeypatch):
    """The full names of all arrays that are read from TF1 checkpoints."""
    names, readers = [], tensor_bundle.readers

    def watched(prefix):
        def read(name, read_array):
            names.append(name)
            return read_array()

        return {
            name: functools.partial(read, name, read_array)
            for name, read_array in readers(prefix).items()
        }

    monkeypatch.setattr(tensor_bundle, "readers", watched)
    return names


def test_each_array_is_read_once_and_slots_are_not(
    arrays_read, tmp_path, tiny_config, arrays
):
    state = {f"{name}/adam_m": array for name, array in arrays.items()}
    state |= {"global_step": np.int64(7)}
    source = Checkpoint(arrays=arrays | state, config=tiny_config)
    tf1.write_ours(str(tmp_path), source)

    assert discovery.open(tmp_path).metadata
    assert not arrays_read
    load.load_model(tmp_path)
    assert sorted(arrays_read) == sorted(arrays)


# Models of checkpoints.

_MODELS = {
    "encoder": AlbertModel,
    "pretraining": PretrainingModel,
    "masked LM alone": lambda c, **kw: PretrainingModel(
        c, objectives=["mlm"], **kw
    ),
    "classifier": lambda c, **kw: ClassifierModel(c, num_labels=3, **kw),
    "regression": lambda c, **kw: ClassifierModel(c, num_labels=1, **kw),
    "span": SpanModel,
    "beam_span": BeamSpanModel,
}


@pytest.fixture(params=_MODELS)
def saved(request, tmp_path, tiny_config):
    """A model, and the folder of its checkpoint."""
    model = _MODELS[request.param](tiny_config, seed=1)
    return model, save(tmp_path, tiny_config, weights_of(model))


def test_a_checkpoint_becomes_the_model_it_is_of(saved):
    model, folder = saved

    assert_same(load.load_model(folder), model)


def test_the_head_config_and_dtype_can_be_chosen(prefix, tiny_config):
    model = load.load_model(
        prefix, head="encoder", config=tiny_config, dtype="mixed_bfloat16"
    )

    assert isinstance(model, AlbertModel)
    assert model.compute_dtype == "bfloat16"


@pytest.mark.parametrize("head", [heads.SPAN, heads.TOKEN_CLASSIFIER])
def test_a_missing_pooler_keeps_its_initial_weights(
    head, tmp_path, tiny_config, caplog
):
    model, other = (
        head.make_model(tiny_config, Checkpoint(), seed=seed) for seed in (1, 2)
    )
    arrays = {n: a for n, a in weights_of(model).items() if "pooler" not in n}

    path = save(tmp_path, tiny_config, arrays, head=head.name)

    found = load.load_model(path)
    load.load_checkpoint(other, path)

    assert caplog.text.count("has no pooler") == 2
    for one in (found, other):
        check_same(weights_of(one) | arrays, weights_of(one))


def test_a_head_needs_the_pooler_that_it_was_trained_with(
    tmp_path, tiny_config
):
    model = ClassifierModel(tiny_config, num_labels=3)
    arrays = {n: a for n, a in weights_of(model).items() if "pooler" not in n}
    path = save(tmp_path, tiny_config, arrays)

    with pytest.raises(ValueError, match="pooler/dense/bias is missing"):
        load.load_model(path)


def test_an_encoder_of_any_name_is_loaded(prefix, tiny_config, arrays):
    inputs = {
        name: keras.Input([None], dtype="int32", name=name)
        for name in ("input_ids", "input_mask")
    }
    encoders = [
        AlbertModel(tiny_config, seed=seed, name=name)
        for seed, name in enumerate(["question", "albert", "passage"])
    ]
    pooled = [encoder(inputs)["pooled_output"] for encoder in encoders]
    keras.Model(inputs, keras.layers.Dense(2)(sum(pooled)))

    for encoder in encoders:
        load.load_checkpoint(encoder, prefix)

    for layer in encoders:
        for name, value in weights_of(layer).items():
            np.testing.assert_array_equal(value, arrays[name])


@pytest.mark.parametrize("head", [None, "classifier", "token_classifier"])
def test_a_new_classifier_of_any_checkpoint(tmp_path, source, head, caplog):
    tf1.write_ours(str(tmp_path), source)

    with caplog.at_level("INFO"):
        model = load.load_model(tmp_path, head=head, num_labels=3)

    assert isinstance(model, ClassifierModel)
    assert model.task_head.output_bias.shape == (3,)
    assert "randomly initialised heads: output_weights" in caplog.text
    # Whoever needs those of a pretraining has the checkpoint.
    assert "unused heads" not in caplog.text
    ours = weights_of(model)
    for name, array in source.arrays.items():
        if name in ours:
            np.testing.assert_array_equal(ours[name], array)


def test_what_contradicts_the_head_is_refused(tmp_path, source):
    tf1.write_ours(str(tmp_path), source)

    with pytest.raises(ValueError, match="head"):
        load.load_model(tmp_path, head="span", num_labels=3)
