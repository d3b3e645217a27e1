"""Other operations are those of a context, for all layers of a model."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.devices import engine
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.fused import computing_with
from albert_tf.modeling.operations import PLAIN, Operations
from tests import tiny


def _operations(model):
    return {
        layer.operations
        for layer in model._flatten_layers()
        if hasattr(layer, "metadata") or isinstance(layer, keras.layers.Dense)
    }


def test_all_layers_compute_with_other_operations_until_an_error():
    model, other = AlbertModel(tiny.config()), Operations()

    with pytest.raises(KeyError), computing_with(model, other):
        assert _operations(model) == {other}
        raise KeyError

    assert _operations(model) == {PLAIN}


def test_a_functional_model_has_operations_of_its_own():
    albert, other = AlbertModel(tiny.config()), Operations()
    model = keras.Model(albert.input, albert.output)
    nodes = model.operations

    with computing_with(model, other):
        assert albert.pooler.operations is other

    assert model.operations == nodes
    assert albert.pooler.operations is PLAIN


def test_a_prediction_casts_shared_matrices_once():
    size = 24  # of the square matrices of sublayers and pooler alone
    config = tiny.config(hidden_size=size)
    model = AlbertModel(config, dtype="mixed_bfloat16")
    graphs = []

    def outputs(batch):
        graphs.append(tf.compat.v1.get_default_graph())
        return {"pooled": model(batch)["pooled_output"]}

    engine.compiled(outputs, model, tiny.batch())

    operations = graphs[0].get_operations()
    casts = [x.outputs[0].shape for x in operations if x.type == "Cast"]
    # Query, key, value and output of the shared block, and the pooler.
    assert casts.count((size, size)) == 5


def test_a_prediction_traces_shared_sublayers_once(monkeypatch):
    model = AlbertModel(tiny.config(num_hidden_layers=5), seed=1)
    [attention] = model.encoder.attention_sublayers
    calls = []

    def call(*args, **kwargs):
        calls.append(args)
        return type(attention).call(attention, *args, **kwargs)

    monkeypatch.setattr(attention, "call", call)
    batch = tiny.batch()
    outputs = engine.compiled(model, model, batch)(batch)

    assert len(calls) == 1
    # The numbers of a graph with one call for each layer.
    plain = tf.function(model, autograph=False)(batch)
    for name, values in plain.items():
        np.testing.assert_array_equal(outputs[name], values)
