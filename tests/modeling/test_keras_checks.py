"""Keras' own check of a layer, and KerasHub's checks of models, on ours."""

import numpy as np
import pytest
import tensorflow as tf
from keras.src import testing

from albert_tf.modeling.base import AlbertLayer
from albert_tf.modeling.layers import OutputLayer
from tests.modeling import test_conformance

LAYERS, MODELS = test_conformance._LAYERS, test_conformance._MODELS


def _of_a_tuple(kind):
    """Returns a layer that takes its inputs as one, as Keras' check has it."""

    def call(self, inputs, **others):
        outputs = kind.call(self, *inputs, **others)
        return tuple(outputs) if isinstance(outputs, list) else outputs

    return type(kind.__name__, (kind,), {"call": call})


class _KerasCheck(testing.TestCase):
    def runTest(self):
        """Stands for a test, so that the class can be made."""


@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)
def test_a_layer_passes_the_check_of_keras(kind):
    row = LAYERS[kind]
    arguments = dict(row.arguments)
    if issubclass(kind, AlbertLayer):
        arguments["config"] = test_conformance._config_of(kind)
    elif kind is OutputLayer:
        arguments["seed"] = 1
    layer = kind if len(row.inputs) == 1 else _of_a_tuple(kind)
    shapes = row.shapes

    _KerasCheck().run_layer_test(
        layer,
        arguments,
        input_data=row.inputs[0] if layer is kind else row.inputs,
        custom_objects={layer.__name__: layer},
        expected_output_shape=(
            tuple(shapes) if isinstance(shapes, list) else shapes
        ),
    )


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_a_model_passes_the_checks_of_keras_hub(kind):
    (inputs,) = MODELS[kind].inputs
    model = test_conformance._make(kind)
    called = model(inputs)
    dataset = tf.data.Dataset.from_tensor_slices(inputs).batch(2)

    for predicted in (model.predict(inputs), model.predict(dataset)):
        for name, values in called.items():
            np.testing.assert_allclose(predicted[name], values, atol=1e-5)
    # A fit on any loss: of the outputs, to those of the call.
    name, values = next(iter(called.items()))
    model.compile("sgd", loss={name: "mse"})
    wanted = {name: values + 1}
    labels = tf.data.Dataset.from_tensors(wanted)
    for data in ((inputs, wanted), (tf.data.Dataset.zip(dataset, labels),)):
        history = model.fit(*data, verbose=0).history
        assert np.isfinite(history["loss"]).all()
    changed = model(inputs)[name]
    assert np.abs(changed - values).max() > 0
