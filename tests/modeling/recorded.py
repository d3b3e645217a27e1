"""Numbers of the original for one model: outputs, losses, gradients.

`tests/parity/README.md` describes the files.
"""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import discovery, load, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig

_PARITY = pathlib.Path(__file__).resolve().parents[1] / "parity"
PRETRAINED = ("model_base", "model_groups")
_INPUTS = ("input_ids", "input_mask", "segment_ids", "p_mask")
# What the batches of all tasks hold.
_ARRAYS = {
    *_INPUTS,
    "end_positions",
    "example_weights",
    "is_impossible",
    "label_ids",
    "masked_lm_ids",
    "masked_lm_positions",
    "masked_lm_weights",
    "p_mask",
    "sentence_order_labels",
    "start_positions",
}
_OUTPUTS = ("logits", "start_logits", "end_logits")


class Recorded:
    """A recorded model by name: one of `PRETRAINED`, or of a task's head."""

    def __init__(self, name):
        self.name = name
        is_head = name not in PRETRAINED
        self.folder = _PARITY / ("model_base" if is_head else name)
        path = f"heads/{name}.npz" if is_head else f"{name}/golden.npz"
        with np.load(_PARITY / path) as numbers:
            self.numbers = dict(numbers)
        self.config = AlbertConfig.from_json_file(
            self.folder / "albert_config.json"
        )
        self.batch = {
            key: self.numbers[key] for key in self.numbers if key in _ARRAYS
        }

    @property
    def inputs(self):
        """What the model of a task is called on, in inference."""
        found = {key: self.batch[key] for key in _INPUTS if key in self.batch}
        if self.name == "race":
            return {k: array.reshape(2, 4, 24) for k, array in found.items()}
        return found

    @property
    def weights(self):
        """The recorded weights of encoder and head, by TF1 name."""
        return discovery.open(self.folder).weights | {
            key.removeprefix("var/"): self.numbers[key]
            for key in self.numbers
            if key.startswith("var/")
        }

    def load(self, model):
        """Gives a model the recorded weights; returns it."""
        load.load_checkpoint(model, Checkpoint(arrays=self.weights))
        return model

    def assert_close(self, actual, name, tolerance=1e-5):
        """Compares the largest difference with the largest recorded value."""
        wanted = self.numbers[name]
        assert tuple(actual.shape) == wanted.shape
        difference = np.abs(np.asarray(actual) - wanted).max()
        assert difference <= tolerance * np.abs(wanted).max(), name

    def assert_outputs(self, outputs):
        """Compares what the model of a task returns for `inputs`."""
        prefix = "inference/"
        wanted = {
            key.removeprefix(prefix): key
            for key in self.numbers
            if key in _OUTPUTS or key.startswith(prefix)
        }
        assert set(outputs) == set(wanted)
        for name, key in wanted.items():
            found = np.asarray(outputs[name])
            if name.endswith("_index"):
                np.testing.assert_array_equal(found, self.numbers[key], name)
            else:
                assert found.dtype == "float32"
                self.assert_close(found, key)

    def assert_gradients(self, model, loss_of, norm="grad_global_norm"):
        """Compares the recorded gradients of a loss, and the norm of all."""
        dense = gradients_of(model, loss_of)
        for key in self.numbers:
            if key.startswith("grad/"):
                wanted = self.numbers[key]
                gradient = dense[key.removeprefix("grad/")]
                bound = max(1e-4 * np.abs(wanted).max(), 1e-6)
                assert gradient.shape == wanted.shape
                assert np.abs(gradient - wanted).max() <= bound, key
        total = float(tf.linalg.global_norm(list(dense.values())))
        assert total == pytest.approx(float(self.numbers[norm]), rel=1e-4)


def gradients_of(model, loss_of):
    """Returns the dense gradients of a loss by TF1 name."""
    named = variable_names.variables_by_tf1_name(model.trainable_weights)
    with tf.GradientTape() as tape:
        loss = loss_of()
    each = tape.gradient(
        loss,
        [variable.value for variable in named.values()],
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    return {
        name: tf.convert_to_tensor(gradient)
        for name, gradient in zip(named, each, strict=True)
    }
