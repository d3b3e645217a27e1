import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling import fused, packing
from albert_tf.modeling.albert_model import AlbertModel
from tests import tiny


def test_hidden_states_are_returned_if_asked_for(tiny_config, tiny_batch):
    plain = AlbertModel(tiny_config)(tiny_batch)
    full = AlbertModel(tiny_config, output_hidden_states=True)(tiny_batch)

    states = full.pop("hidden_states")
    assert [state.shape for state in states] == [(2, 5, 8)] * 4
    np.testing.assert_array_equal(states[-1], full["sequence_output"])
    assert list(plain) == list(full)
    for name, values in plain.items():
        np.testing.assert_array_equal(values, full[name])


def test_no_two_variables_start_alike():
    model = AlbertModel(tiny.config(parameter_sharing="none"))

    kernels = [np.asarray(w) for w in model.weights if w.name == "kernel"]

    assert len({kernel.ravel()[0] for kernel in kernels}) == len(kernels)


_RECOMPUTE = {"recompute": True}
_GROUPS = {"num_hidden_layers": 4, "num_hidden_groups": 2, "inner_group_num": 2}


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, {}),
        ({}, _RECOMPUTE),
        ({}, {"depth": 1}),
        ({}, {"packed_at": np.array([5, 0])}),
        ({"num_hidden_layers": 1}, {}),
        (_GROUPS, {}),
        (_GROUPS, _RECOMPUTE),
        ({"parameter_sharing": "none"}, _RECOMPUTE),
        ({"attention_window": 2}, _RECOMPUTE),
    ],
    ids=str,
)
def test_positions_that_are_read_have_the_vectors_and_gradients_of_all(
    changes, options, tiny_batch
):
    model = AlbertModel(tiny.config(**changes))
    options = dict(options)
    kernels = fused.Kernels(recompute=options.pop("recompute", False))
    if "packed_at" in options:
        tiny_batch["packed_at"] = options.pop("packed_at")
        options["encode"] = packing.encode
    positions = np.array([[0, 4, 2, 2], [0, 1, 2, 0]], "int32")
    factors = tiny.floats(2, 4, 8)
    variables = [v.value for v in model.trainable_variables]

    def vectors_and_gradients(output_positions):
        with fused.computing_with(model, kernels):
            return computed(output_positions)

    def computed(output_positions):
        with tf.GradientTape() as tape:
            outputs = model(
                tiny_batch, output_positions=output_positions, **options
            )
            vectors = outputs["sequence_output"]
            if output_positions is None:
                vectors = tf.gather(vectors, positions, batch_dims=1)
            loss = tf.reduce_sum(vectors * factors)
            loss += tf.reduce_sum(outputs["pooled_output"])
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        return [vectors, *map(tf.convert_to_tensor, gradients)]

    expected = vectors_and_gradients(None)
    largest = max(np.abs(one).max() for one in expected)
    for one, other in zip(
        vectors_and_gradients(positions), expected, strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-6 * largest)
