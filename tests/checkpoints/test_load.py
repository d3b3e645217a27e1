import dataclasses
import os

import keras
import numpy as np
import pytest

from albert_tf.checkpoints import huggingface, load, metadata, tf1
from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel
from tests.checkpoints.weights import PARITY, check_same, starting, weights_of


def test_a_tf1_checkpoint_is_recognised(prefix, tiny_config, arrays):
    for path in (prefix, f"{prefix}.index", os.path.dirname(prefix)):
        model = PretrainingModel(tiny_config, seed=2)

        assert load.recognise(path) == "tf1"
        assert load.load_checkpoint(model, path) == []

        check_same(weights_of(model), arrays)


def test_a_hugging_face_folder_is_recognised(tmp_path, source):
    huggingface.write(str(tmp_path), source)
    model = PretrainingModel(source.config, seed=2)

    assert load.recognise(tmp_path) == "huggingface"
    assert load.load_checkpoint(model, tmp_path) == []

    assert load.global_step(tmp_path) == 0
    check_same(weights_of(model), source.arrays)
    _assert_same(load.load_model(tmp_path), model)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pytorch_model.bin", "is a pickle .pytorch_model.bin.*Accepted are"),
        ("model.pt", "is a pickle"),
        ("model.pkl", "is a pickle"),
        ("model.weights.h5", "holds model.weights.h5.*Accepted are: a TF1"),
        ("model.keras", "holds model.keras"),
    ],
)
def test_other_formats_are_refused_by_name(tmp_path, tiny_config, name, words):
    file = tmp_path / name
    file.touch()

    for path in (file, tmp_path):
        with pytest.raises(ValueError, match=words):
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
    check_same(weights_of(model), arrays)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_act": "relu"},
        {"num_attention_heads": 4},
        {"num_hidden_layers": 4},
    ],
)
@pytest.mark.parametrize(
    ("write", "folder"),
    [
        (huggingface.write, ""),
        (tf1.write_released, ""),
        (tf1.write_ours, "best"),
    ],
)
def test_weights_of_another_meaning_are_refused(
    tmp_path, source, change, write, folder
):
    (tmp_path / folder).mkdir(exist_ok=True)
    write(str(tmp_path / folder), source)
    if folder:
        # A run has one config, in its own folder.
        name = "albert_config.json"
        (tmp_path / folder / name).rename(tmp_path / name)
    model = PretrainingModel(dataclasses.replace(source.config, **change))
    before = weights_of(model)

    with pytest.raises(ValueError, match=f"made with {next(iter(change))}="):
        load.load_checkpoint(model, tmp_path)

    check_same(weights_of(model), before)


def test_a_config_of_another_meaning_is_refused(tmp_path, source):
    tf1.write_ours(str(tmp_path), source)
    other = dataclasses.replace(source.config, num_attention_heads=4)

    with pytest.raises(ValueError, match="made with num_attention_heads=2"):
        load.load_model(tmp_path, config=other)


def test_the_model_answers_what_gelu_means(tmp_path, source):
    huggingface.write(str(tmp_path), source)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"gelu_new"', '"gelu"'))
    model = PretrainingModel(source.config, seed=2)

    load.load_checkpoint(model, tmp_path)

    check_same(weights_of(model), source.arrays)
    _assert_same(load.load_model(tmp_path, config=source.config), model)
    with pytest.raises(ValueError, match="hidden_act='gelu', but only"):
        load.load_model(tmp_path)


@pytest.mark.parametrize("write", [tf1.write_released, tf1.write_ours])
def test_values_that_are_not_finite_are_refused(tmp_path, source, write):
    name = "bert/pooler/dense/bias"
    broken = {name: np.full(8, np.inf, "float32")}
    write(
        str(tmp_path),
        dataclasses.replace(source, arrays=dict(source.arrays) | broken),
    )
    model = PretrainingModel(source.config, seed=2)
    before = weights_of(model)

    with pytest.raises(ValueError, match=f"not finite numbers.*in {name}"):
        load.load_checkpoint(model, tmp_path)

    check_same(weights_of(model), before)


def test_the_step_of_a_checkpoint_is_known(prefix, tmp_path):
    without = tmp_path / "without"
    tf1.write(without, {"x": np.ones(1, "float32")})

    assert load.global_step(prefix) == 7
    assert load.global_step(without) == 0


@pytest.mark.parametrize("name", ["model_base", "model_groups"])
def test_the_weights_of_the_original_are_loaded(name):
    folder = PARITY / name
    config = AlbertConfig.from_json_file(folder / "albert_config.json")
    model = PretrainingModel(config)

    assert load.load_checkpoint(model, folder) == []

    check_same(weights_of(model), tf1.read_weights(folder))


@pytest.mark.parametrize("strategy", ["attention", "ffn", "none"])
def test_every_sharing_strategy_is_written_and_read(
    tiny_config, strategy, tmp_path
):
    config = dataclasses.replace(
        tiny_config, parameter_sharing=strategy, inner_group_num=2
    )
    saved = weights_of(PretrainingModel(config, seed=1))
    tf1.write(tmp_path / "model", saved)
    model = PretrainingModel(config, seed=2)

    load.load_checkpoint(model, tmp_path)

    check_same(weights_of(model), saved)


def test_heads_that_the_model_lacks_are_listed(prefix, tiny_config, arrays):
    unused = load.load_checkpoint(AlbertModel(tiny_config), prefix)

    assert unused == sorted(starting(arrays, "cls/"))
    assert len(unused) == 7


def test_a_missing_head_must_be_allowed(tmp_path, tiny_config, arrays):
    encoder = starting(arrays, "bert/")
    tf1.write(tmp_path / "model", encoder)
    model = PretrainingModel(tiny_config, seed=2)
    heads = starting(weights_of(model), "cls/")

    with pytest.raises(ValueError, match="lacks.*7 in.*allow_new_heads=True"):
        load.load_checkpoint(model, tmp_path)
    load.load_checkpoint(model, tmp_path, allow_new_heads=True)

    check_same(weights_of(model), encoder | heads)


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


@pytest.mark.parametrize(
    ("removed", "added", "words"),
    [
        (
            "bert/pooler/dense/bias",
            {},
            "lacks variables of the model, 1 in all: bert/pooler/dense/bias. "
            "Use the config",
        ),
        (
            "cls/predictions/output_bias",
            {},
            "lacks variables of the model, 1 in all: cls/predictions/output_b",
        ),
        (
            (),
            {"bert/encoder/transformer/group_1/x": np.ones(1, "float32")},
            "has variables that the model lacks, 1 in all: .*group_1/x. Use",
        ),
        (
            (),
            {"bert/pooler/dense/bias": np.ones(9, "float32")},
            r"bert/pooler/dense/bias has shape \[9\], expected \[8\]. Use",
        ),
    ],
)
def test_what_does_not_fit_is_named_and_changes_nothing(
    tmp_path, source, removed, added, words
):
    kept = starting(source.arrays, *(set(source.arrays) - {removed}))
    tf1.write(tmp_path / "model", kept | added)
    model = PretrainingModel(source.config, seed=2)
    before = weights_of(model)

    with pytest.raises(ValueError, match=words):
        # Half a head is not a new one.
        load.load_checkpoint(model, tmp_path, allow_new_heads=True)

    check_same(weights_of(model), before)


def test_long_lists_of_names_are_cut(tmp_path, tiny_config):
    tf1.write(tmp_path / "model", {"x": np.ones(1, "float32")})

    with pytest.raises(ValueError, match="32 in all: .*and 27 more"):
        load.load_checkpoint(PretrainingModel(tiny_config), tmp_path)


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


def _save(folder, config, arrays, **facts):
    tf1.write(folder / "model", arrays)
    config.to_json_file(folder / tf1.CONFIG_FILE)
    metadata.write(folder, metadata.Metadata(**facts))
    return folder


@pytest.fixture(params=_MODELS)
def saved(request, tmp_path, tiny_config):
    """A model, and the folder of its checkpoint."""
    model = _MODELS[request.param](tiny_config, seed=1)
    return model, _save(tmp_path, tiny_config, weights_of(model))


def _assert_same(found, model):
    assert type(found) is type(model)
    assert found.config == model.config
    for ours, theirs in zip(found.weights, model.weights, strict=True):
        assert ours.path == theirs.path
        np.testing.assert_array_equal(ours, theirs)


def test_a_checkpoint_becomes_the_model_it_is_of(saved):
    model, folder = saved

    _assert_same(load.load_model(folder), model)


def test_a_keras_file_is_loaded_by_keras(tmp_path, tiny_config):
    model = SpanModel(tiny_config, seed=1)
    model.save(tmp_path / "model.keras")

    _assert_same(load.load_model(tmp_path / "model.keras"), model)


def test_the_task_tells_multiple_choice_from_regression(tmp_path, tiny_config):
    model = MultipleChoiceModel(tiny_config, seed=1)
    _save(tmp_path, tiny_config, weights_of(model), task="race")

    _assert_same(load.load_model(tmp_path), model)
    assert isinstance(
        load.load_model(tmp_path, head="classifier"), ClassifierModel
    )


def test_the_head_config_and_dtype_can_be_chosen(tmp_path, tiny_config, arrays):
    tf1.write(tmp_path / "model", arrays)

    model = load.load_model(
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
    arrays = {n: a for n, a in weights_of(model).items() if "pooler" not in n}

    found = load.load_model(_save(tmp_path, tiny_config, arrays))

    assert "has no pooler" in caplog.text
    np.testing.assert_array_equal(
        found.span_head.output_weights, model.span_head.output_weights
    )


def test_what_cannot_be_loaded_is_an_error(tmp_path, tiny_config):
    first, second = SpanModel(tiny_config), BeamSpanModel(tiny_config)
    both = weights_of(first) | weights_of(second)
    folder = _save(tmp_path, tiny_config, both)

    with pytest.raises(ValueError, match="several tasks: span, beam_span"):
        load.load_model(folder)
    with pytest.raises(ValueError, match="no head of the kind head='class"):
        load.load_model(folder, head="classifier")
    with pytest.raises(ValueError, match="`head` must be one of encoder"):
        load.load_model(folder, head="squad")
    assert isinstance(load.load_model(folder, head="span"), SpanModel)
    (folder / tf1.CONFIG_FILE).unlink()
    with pytest.raises(ValueError, match="config"):
        load.load_model(folder)


def test_an_unknown_head_is_an_error(tmp_path, tiny_config):
    arrays = weights_of(AlbertModel(tiny_config))
    other = {"cls/other/kernel": np.ones([8, 2], "float32")}
    folder = _save(tmp_path, tiny_config, arrays | other)

    with pytest.raises(ValueError, match="no head that is known.*: cls/other"):
        load.load_model(folder)

    assert isinstance(load.load_model(folder, head="encoder"), AlbertModel)


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
    whole = keras.Model(inputs, keras.layers.Dense(2)(sum(pooled)))

    for encoder in encoders:
        load.load_checkpoint(encoder, prefix)

    for layer in encoders:
        for name, value in weights_of(layer).items():
            np.testing.assert_array_equal(value, arrays[name])
    for model in (whole, keras.Model(inputs, pooled)):
        with pytest.raises(ValueError, match="of the two models on its own"):
            load.load_checkpoint(model, prefix)
