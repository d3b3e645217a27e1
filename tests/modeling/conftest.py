"""A tiny model in which every dimension differs, and a batch for it."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load as load_lib
from albert_tf.checkpoints import tf1, variable_names
from albert_tf.config import AlbertConfig

_PARITY = pathlib.Path(__file__).resolve().parents[1] / "parity"


@pytest.fixture
def tiny_config():
    # Large first weights, so that outputs differ by more than rounding.
    return AlbertConfig(
        vocab_size=13,
        embedding_size=4,
        hidden_size=8,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=6,
        max_position_embeddings=7,
        initializer_range=0.5,
    )


@pytest.fixture
def tiny_batch():
    rng = np.random.default_rng(0)
    return {
        "input_ids": rng.integers(0, 13, (2, 5), dtype="int32"),
        "input_mask": np.array([[1] * 5, [1] * 3 + [0] * 2], "int32"),
        "segment_ids": np.array([[0, 0, 0, 1, 1], [0, 1, 1, 0, 0]], "int32"),
        "masked_lm_positions": np.array([[1, 2, 4], [2, 0, 0]], "int32"),
    }


class RecordedHead:
    """What the original computed with a task head (tests/parity/heads)."""

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
