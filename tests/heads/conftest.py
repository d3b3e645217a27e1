"""What the runs of all heads begin with."""

import shutil

import pytest

import albert_tf
from tests import tiny
from tests.exported_models import write_checkpoint

CONFIG = tiny.config(
    vocab_size=300, num_hidden_layers=1, max_position_embeddings=32
)


@pytest.fixture(scope="session")
def base(tmp_path_factory, tiny_spm_model):
    """An encoder with its vocabulary, where all fine-tunings begin."""
    folder = tmp_path_factory.mktemp("base")
    write_checkpoint(folder, albert_tf.AlbertModel(CONFIG))
    shutil.copy(tiny_spm_model, folder)
    return folder
