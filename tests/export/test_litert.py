"""LiteRT models answer as the SavedModels that they were written beside."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import litert
from albert_tf.export.signature import Signature


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
@pytest.mark.parametrize("task", ["encoder", "classifier", "squad_1"])
def test_ids_give_what_the_saved_model_gives(task, request):
    exported = request.getfixturevalue(f"served_{task}")
    path = pathlib.Path(exported.summary.path) / litert.FILE
    interpreter = tf.lite.Interpreter(model_path=str(path))
    run = interpreter.get_signature_runner()
    rng = np.random.default_rng(1)
    for batch, length in ((1, 5), (3, 12)):
        mask = (np.arange(length) < length - np.arange(batch)[:, None]) * 1
        ids = {
            "input_ids": rng.integers(5, 300, (batch, length)),
            "input_mask": mask,
            "segment_ids": mask * (np.arange(length) > 2),
        }
        ids = {name: values.astype(np.int32) for name, values in ids.items()}

        found = run(**ids)

        expected = exported.ask("tokens", **ids)
        assert set(found) == set(expected)
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values, atol=1e-4)


def test_an_operation_that_litert_does_not_know():
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def call(text):
        return {"x": tf.strings.unicode_decode(text, "UTF-8").values}

    one = Signature(
        name="odd", function=call.get_concrete_function(), warmup=()
    )

    with pytest.raises(ValueError, match="'odd' cannot be converted to LiteRT"):
        litert.convert(one, module)
