"""A tiny model, and a checkpoint of it."""

import numpy as np
import pytest

from albert_tf.checkpoints import tf1
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.modeling.pretraining_model import PretrainingModel
from tests import tiny
from tests.checkpoints.weights import weights_of


@pytest.fixture
def tiny_config():
    return tiny.config(num_hidden_layers=2, initializer_range=0.02)


@pytest.fixture
def arrays(tiny_config):
    """The weights of one such model, by TF1 name."""
    return weights_of(PretrainingModel(tiny_config, seed=1))


@pytest.fixture
def prefix(arrays, tmp_path):
    """A checkpoint of them, with the step counter and one slot."""
    prefix = str(tmp_path / "run" / "model.ckpt-7")
    slot = {"bert/pooler/dense/bias/adam_m": np.ones(8, "float32")}
    step = {"global_step": np.array(7, "int64")}
    tf1.write(prefix, arrays | slot | step)
    return prefix


@pytest.fixture
def source(tiny_config, arrays):
    """The same weights, as what every format reads and writes."""
    return Checkpoint(arrays=arrays, config=tiny_config)


@pytest.fixture
def wordpiece(tmp_path_factory):
    """A WordPiece vocabulary of 6 tokens."""
    path = tmp_path_factory.mktemp("wordpiece") / "vocab.txt"
    path.write_text("[UNK]\n[CLS]\n[PAD]\n[SEP]\n[MASK]\na\n")
    return path
