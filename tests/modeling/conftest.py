"""A tiny config and batch, and the recorded numbers of the task heads."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load as load_lib
from albert_tf.checkpoints import tf1, variable_names
from albert_tf.config import AlbertConfig
from tests import tiny

_PARITY = pathlib.Path(__file__).resolve().parents[1] / "parity"


@pytest.fixture
def tiny_config():
    return tiny.config()


@pytest.fixture
def tiny_batch():
    return tiny.batch()


class RecordedHead:
    """Outputs of the original with a task head (tests/parity/heads)."""

    def __init__(self, name):
        self.numbers = np.load(_PARITY / "heads" / f"{name}.npz")
        folder = _PARITY / "model_base"
        self.config = AlbertConfig.from_json_file(folder / "albert_config.json")
        self.batch = {
            key: self.numbers[key]
            for key in self.numbers.files
            if "/" not in key
        }

    @property
    def weights(self):
        """The recorded weights of encoder and head, by TF1 name."""
        return tf1.read_weights(_PARITY / "model_base") | {
            key.removeprefix("var/"): self.numbers[key]
            for key in self.numbers.files
            if key.startswith("var/")
        }

    def load(self, model):
        """Gives a model the recorded weights; returns it."""
        load_lib.assign(model, self.weights, "recorded")
        return model

    def assert_close(self, actual, name):
        """Largest difference against the largest recorded value."""
        wanted = self.numbers[name]
        assert tuple(actual.shape) == wanted.shape
        difference = np.abs(np.asarray(actual) - wanted).max()
        assert difference <= 1e-5 * np.abs(wanted).max(), name

    def assert_gradients(self, model, loss_of, norm="grad_global_norm"):
        """Compares the recorded gradients of a loss, and the norm of all."""
        named = variable_names.variables_by_tf1_name(model.trainable_weights)
        with tf.GradientTape() as tape:
            loss = loss_of()
        gradients = tape.gradient(
            loss,
            [variable.value for variable in named.values()],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        for name, gradient in zip(named, dense, strict=True):
            if f"grad/{name}" in self.numbers:
                wanted = self.numbers[f"grad/{name}"]
                bound = max(1e-4 * np.abs(wanted).max(), 1e-6)
                assert np.abs(gradient - wanted).max() <= bound, name
        total = float(tf.linalg.global_norm(dense))
        assert total == pytest.approx(float(self.numbers[norm]), rel=1e-4)


@pytest.fixture
def recorded_head():
    """Makes a `RecordedHead` by name."""
    return RecordedHead
