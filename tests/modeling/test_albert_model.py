import numpy as np

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


def test_the_seed_decides_all_weights(tiny_config):
    first, again, other = (
        AlbertModel(tiny_config, seed=seed) for seed in (4, 4, 5)
    )

    for x, y, z in zip(
        first.weights, again.weights, other.weights, strict=True
    ):
        np.testing.assert_array_equal(x, y)
        if x.name not in ("beta", "gamma", "bias"):
            assert (np.asarray(x) != np.asarray(z)).any(), x.path


def test_no_two_variables_start_alike():
    model = AlbertModel(tiny.config(parameter_sharing="none"))

    kernels = [np.asarray(w) for w in model.weights if w.name == "kernel"]

    assert len({kernel.ravel()[0] for kernel in kernels}) == len(kernels)
