"""What every layer and every model must do, whatever it computes.

One row for each: how to make it, what to call it with, what it returns.

The models have one layer, whose weights are all that a deeper one has.
"""

import copy
import dataclasses
import importlib
import inspect
import json
import pickle
import pkgutil
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf import (
    AlbertModel,
    BeamSpanModel,
    ClassifierModel,
    MultipleChoiceModel,
    PretrainingModel,
    SpanModel,
    modeling,
)
from albert_tf.modeling import random_depth
from albert_tf.modeling.albert_model import ModelWithHead
from albert_tf.modeling.attention import AttentionSublayer
from albert_tf.modeling.base import AlbertLayer, SerializableLayer
from albert_tf.modeling.base_model import BaseModel
from albert_tf.modeling.embeddings import Embeddings, Table
from albert_tf.modeling.encoder import Encoder
from albert_tf.modeling.feed_forward import FeedForwardSublayer
from albert_tf.modeling.layers import LayerNorm, Linear, OutputLayer
from albert_tf.modeling.pooled_model import PooledModel
from albert_tf.modeling.pretraining_model import MaskedLmHead
from albert_tf.modeling.sequence_models import TokenClassifierModel
from albert_tf.modeling.span_models import BeamSpanHead
from albert_tf.modeling.windows import AttentionWithinWindow
from tests import tiny

B, S, E, H, V, P, C = 2, 5, 4, 8, tiny.VOCAB_SIZE, 3, 3
_CONFIG = tiny.config(num_hidden_layers=1)
_DROPPING = dataclasses.replace(
    _CONFIG, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2
)
_BATCH = tiny.batch()
_KEYS = _BATCH["input_mask"][:, None, None, :]
_ENCODED = {
    "sequence_output": (B, S, H),
    "pooled_output": (B, H),
    "embedding_output": (B, S, E),
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One layer or model.

    Args:
        inputs: Positional arguments of the call.
        shapes: Shapes of the outputs.
        arguments: Arguments of the constructor besides config, seed and dtype.
        is_float32: Whether outputs are float32 in every precision.
        fields: Fields of its config that differ from the other rows.
    """

    inputs: tuple[Any, ...]
    shapes: Any
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    is_float32: bool = False
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)


_LAYERS = {
    LayerNorm: Row((tiny.floats(B, S, H),), (B, S, H), {"size": H}),
    Embeddings: Row((_BATCH["input_ids"], _BATCH["segment_ids"]), (B, S, E)),
    AttentionSublayer: Row((tiny.floats(B, S, H), _KEYS), (B, S, H)),
    AttentionWithinWindow: Row(
        (tiny.floats(B, S, H), _KEYS), (B, S, H), fields={"attention_window": 2}
    ),
    FeedForwardSublayer: Row((tiny.floats(B, S, H),), (B, S, H)),
    Encoder: Row((tiny.floats(B, S, E), _KEYS), [(B, S, H)] * 2),
    OutputLayer: Row(
        (tiny.floats(B, S, H),),
        (B, S, 3),
        {"units": 3, "hidden_size": H, "name": "head"},
        is_float32=True,
    ),
    MaskedLmHead: Row(
        (tiny.floats(B, P, H), tiny.floats(V, E)), (B, P, V), is_float32=True
    ),
    BeamSpanHead: Row(
        (tiny.floats(B, S, H), _BATCH["p_mask"]),
        {
            "cls_logits": (B,),
            "start_top_log_probs": (B, 1),
            "start_top_index": (B, 1),
            "end_top_log_probs": (B, 1),
            "end_top_index": (B, 1),
        },
        {"dropout_prob": 0.0},
        is_float32=True,
    ),
}
_MODELS = {
    AlbertModel: Row((_BATCH,), _ENCODED),
    PretrainingModel: Row(
        (_BATCH,),
        {"masked_lm_logits": (B, P, V), "sentence_order_logits": (B, 2)},
        is_float32=True,
    ),
    ClassifierModel: Row(
        (_BATCH,), {"logits": (B, 3)}, {"num_labels": 3}, is_float32=True
    ),
    # Of a stranger's head: it is not public, as the other models are.
    PooledModel: Row(
        (_BATCH,),
        {"logits": (B, 3)},
        {"num_labels": 3, "head_name": "mood"},
        is_float32=True,
    ),
    TokenClassifierModel: Row(
        (_BATCH,), {"logits": (B, S, 3)}, {"num_labels": 3}, is_float32=True
    ),
    MultipleChoiceModel: Row(
        (tiny.choices(),), {"logits": (B, C)}, is_float32=True
    ),
    SpanModel: Row(
        (_BATCH,),
        {"start_logits": (B, S), "end_logits": (B, S)},
        is_float32=True,
    ),
    BeamSpanModel: Row(
        (_BATCH,),
        {
            "cls_logits": (B,),
            "start_top_log_probs": (B, 2),
            "start_top_index": (B, 2),
            "end_top_log_probs": (B, 4),
            "end_top_index": (B, 4),
        },
        {"start_n_top": 2, "end_n_top": 2},
        is_float32=True,
    ),
}
_TABLE = _LAYERS | _MODELS
_POOLER = {"pooler/kernel", "pooler/bias"}
# Softmax ignores a number that is added for all keys, or for all positions.
_KEY = {"key/bias"}
_BEAM = {"start_dense/bias", "end_dense_1/bias", "end_layer_norm/beta"}
_WITHOUT_GRADIENT = {
    AttentionSublayer: _KEY,
    AttentionWithinWindow: _KEY,
    Encoder: _KEY,
    AlbertModel: _KEY,
    PretrainingModel: _KEY,
    ClassifierModel: _KEY,
    PooledModel: _KEY,
    TokenClassifierModel: _KEY | _POOLER,
    MultipleChoiceModel: _KEY,
    SpanModel: _KEY | _POOLER,
    BeamSpanHead: _BEAM,
    BeamSpanModel: _KEY | _POOLER | _BEAM,
}


@pytest.fixture(params=_TABLE, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


@pytest.fixture(params=_MODELS, ids=lambda kind: kind.__name__)
def model_kind(request):
    return request.param


@pytest.fixture(params=["float32", "mixed_bfloat16", "bfloat16"])
def dtype(request):
    return request.param


def _config_of(kind, config=_CONFIG):
    return dataclasses.replace(config, **_TABLE[kind].fields)


def _make(kind, dtype="float32", *, seed=0, config=_CONFIG, **changes):
    arguments = {"dtype": dtype, **_TABLE[kind].arguments, **changes}
    if issubclass(kind, AlbertLayer):
        arguments |= {"config": _config_of(kind, config), "seed": seed}
    elif kind is OutputLayer:
        arguments |= {"seed": seed}
    layer = kind(**arguments)
    if not layer.built:
        layer.build()
    return layer


def _call(kind, layer):
    return layer(*_TABLE[kind].inputs)


def _arrays(outputs):
    return [np.asarray(x, "float32") for x in tf.nest.flatten(outputs)]


def _assert_near(actual, expected, tolerance=0.0):
    for ours, theirs in zip(_arrays(actual), _arrays(expected), strict=True):
        assert np.isfinite(ours).all()
        assert np.abs(ours - theirs).max() <= tolerance * np.abs(theirs).max()


def _symbolic(values):
    def tensor(value):
        shape = (None, *value.shape[1:])
        return keras.KerasTensor(shape, dtype=str(value.dtype))

    return tf.nest.map_structure(tensor, values)


def test_the_table_has_every_layer_and_every_public_model():
    found = set()
    for module in pkgutil.iter_modules(modeling.__path__):
        name = f"{modeling.__name__}.{module.name}"
        found |= {
            member
            for member in vars(importlib.import_module(name)).values()
            if inspect.isclass(member)
            and issubclass(member, keras.layers.Layer)
            and member.__module__ == name
            # Keras saves and copies these.
            and not issubclass(member, (Linear, Table))
        }
    public = {getattr(albert_tf, name) for name in albert_tf.__all__}

    abstract = {SerializableLayer, AlbertLayer, BaseModel, ModelWithHead}
    assert set(_TABLE) == found - abstract
    assert set(_MODELS) - {PooledModel} == public & found


def test_outputs_have_the_shapes_and_dtypes_of_the_symbolic_call(kind, dtype):
    layer = _make(kind, dtype)
    inputs = _TABLE[kind].inputs

    outputs = layer(*inputs)
    symbolic = layer(*_symbolic(inputs))

    shapes = tf.nest.map_structure(lambda x: tuple(x.shape), outputs)
    tf.nest.assert_same_structure(outputs, symbolic)
    assert shapes == _TABLE[kind].shapes
    expected = "float32" if _TABLE[kind].is_float32 else layer.compute_dtype
    for real, promised in zip(
        tf.nest.flatten(outputs), tf.nest.flatten(symbolic), strict=True
    ):
        assert promised.dtype == real.dtype.name
        assert len(promised.shape) == len(real.shape)
        for either, size in zip(promised.shape, real.shape, strict=True):
            assert either in (None, size)
        assert real.dtype == expected or real.dtype.is_integer


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("mixed_bfloat16", 0.1), ("mixed_float16", 0.02)]
)
def test_mixed_precision_is_near_and_keeps_float32_weights(
    kind, dtype, tolerance
):
    mixed = _make(kind, dtype)

    assert {w.dtype for w in mixed.weights} == {"float32"}
    coarse, exact = (
        [x for x in tf.nest.flatten(_call(kind, y)) if x.dtype.is_floating]
        for y in (mixed, _make(kind))
    )
    _assert_near(coarse, exact, tolerance)


def test_every_weight_gets_a_gradient(kind, dtype):
    layer = _make(kind, dtype)
    weights = layer.trainable_weights
    with tf.GradientTape() as tape:
        outputs = tf.nest.flatten(_call(kind, layer))
        # Not the plain sum: the sum of a normalized row is constant.
        loss = sum(
            tf.reduce_sum(tf.cast(x, "float32") * tiny.floats(*x.shape))
            for x in outputs
            if x.dtype.is_floating
        )

    gradients = tape.gradient(
        loss,
        [weight.value for weight in weights],
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )

    missing = set()
    for weight, gradient in zip(weights, gradients, strict=True):
        gradient = tf.convert_to_tensor(gradient)
        assert np.isfinite(gradient).all(), weight.path
        if np.abs(gradient).max() <= 1e-6:
            missing.add("/".join(weight.path.split("/")[-2:]))
    exempt = _WITHOUT_GRADIENT.get(kind, set())
    if dtype == "float32":
        assert missing == exempt
    else:  # rounding gives some exempt weights a small gradient
        assert missing <= exempt


def test_padding_does_not_matter(model_kind):
    (inputs,) = _TABLE[model_kind].inputs
    mask = inputs["input_mask"]
    model = _make(model_kind)
    ids = np.where(mask == 1, inputs["input_ids"], 9)

    before = _arrays(model(inputs))
    after = _arrays(model(inputs | {"input_ids": ids}))

    for first, second in zip(before, after, strict=True):
        if first.shape[: mask.ndim] == mask.shape:  # padding has outputs too
            first, second = first[mask == 1], second[mask == 1]
        np.testing.assert_allclose(first, second, atol=1e-5)


def test_a_random_depth_is_one_of_the_smaller_depths(model_kind):
    config = tiny.config(
        num_hidden_layers=3, inner_group_num=2, initializer_range=0.3
    )
    drops = model_kind in (*_DROPPING_HEADS, MultipleChoiceModel)
    own = {"dropout_prob": 0.0} if drops else {}
    model = _make(model_kind, config=config, **own)
    batch = _own_inputs(model_kind)
    if model_kind is BeamSpanModel:
        batch["start_positions"] = np.ones(B, np.int32)

    def arrays(outputs):
        # The embeddings are the same at all depths.
        outputs.pop("embedding_output", None)
        return _arrays(outputs)

    by_depth = [
        arrays(model(batch, training=True, depth=depth)) for depth in (1, 2, 3)
    ]
    found = set()
    for seed in range(8):
        whole, shallow = map(
            arrays,
            random_depth.outputs(
                model, batch, training=True, seed=tf.constant([seed, 0])
            ),
        )
        errors = []
        for expected in by_depth:
            pairs = zip(shallow, expected, strict=True)
            errors.append(max(np.abs(a - b).max() for a, b in pairs))
        found.add(int(np.argmin(errors)) + 1)
        assert min(errors) < 1e-5
        for ours, theirs in zip(whole, by_depth[-1], strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert found == {1, 2}


_COPIES = {
    "keras_object": lambda layer: keras.saving.deserialize_keras_object(
        json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    ),
    "pickle": lambda layer: pickle.loads(pickle.dumps(layer)),
    "deepcopy": copy.deepcopy,
    "clone_model": keras.models.clone_model,
}


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        (kind, way)
        for kind in _TABLE
        for way in _COPIES
        if way != "clone_model" or kind in _MODELS
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_copies_are_the_same(kind, way):
    layer = _make(kind, "mixed_bfloat16", seed=3)
    for weight in layer.weights:
        weight.assign(weight + 0.25)

    copied = _COPIES[way](layer)

    assert copied.get_config() == layer.get_config()
    if not copied.built:
        copied.build()
    if way not in ("pickle", "deepcopy"):
        for ours, theirs in zip(
            copied.weights, _make(kind, seed=3).weights, strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)
        copied.set_weights(layer.get_weights())
    assert [w.path for w in copied.weights] == [w.path for w in layer.weights]
    _assert_near(_call(kind, copied), _call(kind, layer))


@pytest.mark.parametrize(
    ("dtype", "is_functional"), [("float32", True), ("mixed_bfloat16", False)]
)
def test_saved_models_are_read_back(model_kind, dtype, is_functional, tmp_path):
    model = _make(model_kind, dtype)
    if is_functional:
        inputs = model.input
        outputs = model(inputs)
        model = keras.Model(inputs, outputs)
    batch = _own_inputs(model_kind)
    model.save(tmp_path / "model.keras")

    read = keras.models.load_model(tmp_path / "model.keras")

    assert [w.path for w in read.weights] == [w.path for w in model.weights]
    _assert_near(read(batch), model(batch))


def _own_inputs(kind):
    (inputs,) = _MODELS[kind].inputs
    return {name: inputs[name] for name in _make(kind).input_specs()}


@pytest.mark.parametrize("way", ["attention", "ffn", "none"])
def test_every_way_of_sharing_is_saved(way, tmp_path):
    config = tiny.config(
        num_hidden_layers=2, inner_group_num=2, parameter_sharing=way
    )
    model = _make(AlbertModel, config=config)
    for weight in model.weights:
        weight.assign(weight + 0.25)
    model.save(tmp_path / "model.keras")

    read = keras.models.load_model(tmp_path / "model.keras")

    _assert_near(read(_BATCH), model(_BATCH))


def test_frozen_layers_stay_frozen_when_saved(tmp_path):
    model = _make(ClassifierModel)
    model.albert.embeddings.trainable = False
    model.save(tmp_path / "model.keras")

    read = keras.models.load_model(tmp_path / "model.keras")

    assert not read.albert.embeddings.trainable
    assert [w.path for w in read.trainable_weights] == [
        w.path for w in model.trainable_weights
    ]


def test_exported_models_give_the_same_outputs(model_kind, tmp_path):
    model, batch = _make(model_kind), _own_inputs(model_kind)

    model.export(tmp_path / "exported", verbose=False)

    exported = tf.saved_model.load(tmp_path / "exported")
    served = exported.serve(
        {name: tf.constant(values) for name, values in batch.items()}
    )
    outputs = model(batch)
    assert set(served) == set(outputs)
    for name, values in outputs.items():
        _assert_near(served[name], values, 1e-5)


def test_the_summary_shows_shapes(model_kind):
    lines = []

    _make(model_kind).summary(print_fn=lines.append)

    text = "\n".join(lines)
    assert "(None" in text
    assert "?" not in text


def test_the_encoder_starts_as_the_bare_model_of_the_same_seed(model_kind):
    model = _make(model_kind, seed=3)

    bare = AlbertModel(_CONFIG, seed=3)

    found = {w.path.partition("albert/")[2]: w for w in model.weights}
    for weight in bare.weights:
        name = weight.path.removeprefix("albert/")
        np.testing.assert_array_equal(found[name], weight)


_DROPPING_HEADS = [
    kind
    for kind in _MODELS
    if "dropout_prob" in inspect.signature(kind).parameters
]


@pytest.mark.parametrize(
    ("kind", "dropping"),
    [(kind, "encoder") for kind in _MODELS]
    + [(kind, "head") for kind in _DROPPING_HEADS],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_only_training_drops_values_and_the_seed_decides_which(kind, dropping):
    in_head = dropping == "head"
    own = {"dropout_prob": 0.5 * in_head} if kind in _DROPPING_HEADS else {}
    model = _make(kind, config=_CONFIG if in_head else _DROPPING, **own)
    (inputs,) = _MODELS[kind].inputs

    def run(*seed, training=True):
        seed = np.array(seed, "int32") if seed else None
        outputs = model(inputs, training=training, seed=seed)
        return b"".join(array.tobytes() for array in _arrays(outputs))

    plain, first = run(training=False), run(1, 2)
    assert run(1, 2, training=False) == plain
    assert run(1, 2) == first
    # Without a seed, every call draws its own.
    assert len({plain, first, run(1, 3), run(), run()}) == 5


def test_keras_predicts_and_fits_batches(model_kind):
    (inputs,) = _MODELS[model_kind].inputs
    model = _make(model_kind)
    called = model(inputs)
    dataset = tf.data.Dataset.from_tensor_slices(inputs).batch(2)

    for name, values in model.predict(dataset, verbose=0).items():
        np.testing.assert_allclose(values, called[name], atol=1e-5)
    # A fit on any loss: the outputs are fitted to the outputs of the call.
    name, values = next(iter(called.items()))
    model.compile("sgd", loss={name: "mse"})
    history = model.fit(inputs, {name: values + 1}, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    changed = model(inputs)[name]
    assert np.abs(changed - values).max() > 0


@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
def test_a_compiled_model_equals_eager_and_drops_by_the_seed(jit_compile):
    model = PretrainingModel(_DROPPING)

    run = tf.function(model, jit_compile=jit_compile)

    _assert_near(run(_BATCH), model(_BATCH), 1e-5)
    first, again, other = (
        run(_BATCH, training=True, seed=tf.constant(seed))
        for seed in ([1, 2], [1, 2], [1, 3])
    )
    _assert_near(first, again)
    logits = [np.asarray(x["masked_lm_logits"]) for x in (first, other)]
    assert (logits[0] != logits[1]).any()
