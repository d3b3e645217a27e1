"""With adapters, the passes of a shared block are layers of their own."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from tests import tiny

_SHAPES = {
    "one group": {},
    "two groups": {"num_hidden_groups": 2, "num_hidden_layers": 5},
    "inner groups": {"inner_group_num": 2},
    "shared attention": {"parameter_sharing": "attention"},
    "shared feed-forward": {"parameter_sharing": "ffn"},
}


def _adapted(model_class=AlbertModel, dtype="float32", **fields):
    """Returns a model whose adapters are not 0."""
    config = tiny.config(adapter_rank=2, **fields)
    model = model_class(config, seed=1, dtype=dtype)
    rng = np.random.default_rng(0)
    for variable in model.variables:
        if variable.path.endswith("adapters/up"):
            variable.assign(rng.normal(size=variable.shape, scale=0.3))
    return model


def _weights(layer):
    """Returns the variables of a layer by their paths within it."""
    front = f"{layer.name}/"
    return {v.path.partition(front)[2]: v for v in layer.variables}


def _unshared(model):
    """Returns a model without adapters that computes the same."""
    fields = model.config.to_dict() | {"parameter_sharing": "none"}
    fields |= {"num_hidden_groups": 1}
    del fields["adapter_rank"]
    other = AlbertModel(type(model.config)(**fields))
    ours, theirs = model.encoder, other.encoder
    for source, target in (
        (model.embeddings, other.embeddings),
        (model.pooler, other.pooler),
        (ours.embedding_projection, theirs.embedding_projection),
    ):
        target.set_weights(source.get_weights())
    for half, kind in enumerate(("attention", "feed_forward")):
        uses = [pair[half] for pair in ours.sublayers_of_blocks]
        for block, index in enumerate(uses):
            source = _weights(getattr(ours, f"{kind}_sublayers")[index])
            target = _weights(getattr(theirs, f"{kind}_sublayers")[block])
            pass_index = uses[:block].count(index)
            for name, variable in target.items():
                value = np.array(source[name])
                down, up = (
                    source.get(name.replace("kernel", f"adapters/{end}"))
                    for end in ("down", "up")
                )
                if name.endswith("kernel") and down is not None:
                    value += (
                        np.array(down)[pass_index] @ np.array(up)[pass_index]
                    )
                variable.assign(value)
    return other


@pytest.mark.parametrize("shape", _SHAPES)
def test_a_new_model_is_one_without_adapters_to_the_bit(shape):
    without = AlbertModel(tiny.config(**_SHAPES[shape]), seed=1)
    fields = _SHAPES[shape] | {"adapter_rank": 2}
    model = AlbertModel(tiny.config(**fields), seed=1)

    assert model.count_params() > without.count_params()
    keras.tree.map_structure(
        np.testing.assert_array_equal,
        model(tiny.batch()),
        without(tiny.batch()),
    )


@pytest.mark.parametrize("options", [{}, {"depth": 2, "recompute": True}])
@pytest.mark.parametrize("shape", _SHAPES)
def test_each_pass_has_its_own_kernels(shape, options):
    model = _adapted(**_SHAPES[shape])

    keras.tree.map_structure(
        lambda one, other: np.testing.assert_allclose(one, other, atol=2e-5),
        model(tiny.batch(), **options),
        _unshared(model)(tiny.batch(), **options),
    )


def test_layers_that_are_not_shared_have_none():
    model = AlbertModel(
        tiny.config(adapter_rank=2, parameter_sharing="attention")
    )
    adapted = {v.path.split("/")[2] for v in model.weights if "down" in v.path}
    assert adapted == {"attention_0_0"}


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("recompute", [False, True])
def test_every_pass_that_is_computed_is_trained(dtype, recompute):
    model = _adapted(PretrainingModel, dtype=dtype)
    with tf.GradientTape() as tape:
        outputs = model(tiny.batch(), depth=2, recompute=recompute)
        loss = sum(tf.reduce_sum(one**2) for one in outputs.values())
    variables = {
        v.path: v.value for v in model.variables if "adapters" in v.path
    }
    gradients = tape.gradient(loss, variables)

    assert len(gradients) == 12
    for gradient in gradients.values():
        is_trained = np.any(np.array(gradient) != 0, axis=(1, 2))
        assert is_trained.tolist() == [True, True, False]


def test_a_quantized_model_keeps_its_adapters():
    model = _adapted()
    expected = model(tiny.batch())["sequence_output"]

    model.quantize("int8")

    np.testing.assert_allclose(
        model(tiny.batch())["sequence_output"], expected, atol=0.1
    )


def test_lora_trains_the_same_as_without_adapters():
    trained = []
    for rank in (0, 2):
        model = AlbertModel(tiny.config(adapter_rank=rank))
        model.enable_lora(3)
        trained.append([v.path for v in model.trainable_variables])

    assert trained[0] == trained[1]
