"""`load_model`: the format and the head are recognized."""

import numpy as np
import pytest

from albert_tf.checkpoints import (
    conversion,
    load,
    metadata,
    models,
    tf1,
    variable_names,
)
from albert_tf.checkpoints.conversion_config import ConversionConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel

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


def _arrays(model):
    named = variable_names.variables_by_tf1_name(model.weights)
    return {name: np.asarray(variable) for name, variable in named.items()}


def _save(folder, config, arrays, **facts):
    tf1.write(folder / "model", arrays)
    config.to_json_file(folder / tf1.CONFIG_FILE)
    metadata.write(folder, metadata.Metadata(**facts))
    return folder


@pytest.fixture(params=_MODELS)
def saved(request, tmp_path, tiny_config):
    """A model, and the folder of its checkpoint."""
    model = _MODELS[request.param](tiny_config, seed=1)
    return model, _save(tmp_path, tiny_config, _arrays(model))


def _assert_same(found, model):
    assert type(found) is type(model)
    assert found.config == model.config
    for ours, theirs in zip(found.weights, model.weights, strict=True):
        assert ours.path == theirs.path
        np.testing.assert_array_equal(ours, theirs)


def test_a_checkpoint_becomes_the_model_it_is_of(saved):
    model, folder = saved

    _assert_same(models.load_model(folder), model)


@pytest.mark.parametrize("output_format", ["huggingface", "keras"])
def test_formats_are_recognized(saved, tmp_path, output_format):
    model, folder = saved
    if output_format == "huggingface" and isinstance(model, BeamSpanModel):
        pytest.skip("transformers has no such model")
    written = tmp_path / output_format
    conversion.convert(
        ConversionConfig(
            input_path=str(folder),
            output_path=str(written),
            output_format=output_format,
        )
    )

    _assert_same(models.load_model(written), model)


def test_a_keras_file_is_loaded_by_keras(tmp_path, tiny_config):
    model = SpanModel(tiny_config, seed=1)
    model.save(tmp_path / "model.keras")

    _assert_same(models.load_model(tmp_path / "model.keras"), model)


def test_the_task_tells_multiple_choice_from_regression(tmp_path, tiny_config):
    model = MultipleChoiceModel(tiny_config, seed=1)
    _save(tmp_path, tiny_config, _arrays(model), task="race")

    _assert_same(models.load_model(tmp_path), model)
    assert isinstance(
        models.load_model(tmp_path, head="classifier"), ClassifierModel
    )


def test_the_head_config_and_dtype_can_be_chosen(tmp_path, tiny_config, arrays):
    tf1.write(tmp_path / "model", arrays)

    model = models.load_model(
        tmp_path, head="encoder", config=tiny_config, dtype="mixed_bfloat16"
    )

    assert isinstance(model, AlbertModel)
    assert model.compute_dtype == "bfloat16"
    name = "bert/pooler/dense/kernel"
    np.testing.assert_array_equal(model.pooler.kernel, arrays[name])


def test_a_missing_pooler_keeps_its_initial_weights(
    tmp_path, tiny_config, caplog
):
    model = SpanModel(tiny_config, seed=1)
    arrays = {n: a for n, a in _arrays(model).items() if "pooler" not in n}

    found = models.load_model(_save(tmp_path, tiny_config, arrays))

    assert "has no pooler" in caplog.text
    np.testing.assert_array_equal(
        found.span_head.output_weights, model.span_head.output_weights
    )


def test_what_cannot_be_loaded_is_an_error(tmp_path, tiny_config):
    first, second = SpanModel(tiny_config), BeamSpanModel(tiny_config)
    both = _arrays(first) | _arrays(second)
    folder = _save(tmp_path, tiny_config, both)

    with pytest.raises(ValueError, match="several tasks: span, beam_span"):
        models.load_model(folder)
    with pytest.raises(ValueError, match="no head of the kind head='class"):
        models.load_model(folder, head="classifier")
    with pytest.raises(ValueError, match="`head` must be one of encoder"):
        models.load_model(folder, head="squad")
    assert isinstance(models.load_model(folder, head="span"), SpanModel)
    (folder / tf1.CONFIG_FILE).unlink()
    with pytest.raises(ValueError, match="config"):
        models.load_model(folder)


def test_an_encoder_of_any_name_is_loaded(prefix, tiny_config, arrays):
    import keras

    inputs = {
        name: keras.Input([None], dtype="int32", name=name)
        for name in ("input_ids", "input_mask")
    }
    encoders = [
        AlbertModel(tiny_config, seed=seed, name=name)
        for seed, name in enumerate(["question", "albert", "passage"])
    ]
    pooled = [encoder(inputs)["pooled_output"] for encoder in encoders]
    whole = keras.Model(inputs, keras.layers.Dense(2)(sum(pooled)))

    for encoder in encoders:
        load.load_checkpoint(encoder, prefix)

    for layer in encoders:
        for name, value in _arrays(layer).items():
            np.testing.assert_array_equal(value, arrays[name])
    for model in (whole, keras.Model(inputs, pooled)):
        with pytest.raises(ValueError, match="of the two models on its own"):
            load.load_checkpoint(model, prefix)
