"""A config and vocabularies that the tests of all tasks share."""

import pytest

from albert_tf.text import tokenizer
from tests import tiny


@pytest.fixture(scope="session")
def words(tiny_spm_model):
    """A tokenizer with a tiny vocabulary."""
    return tokenizer.load_tokenizer(spm_model_file=tiny_spm_model)


@pytest.fixture(scope="session")
def english(shared_data):
    """A tokenizer with the released vocabulary."""
    path = shared_data / "data" / "spm" / "30k-clean.model"
    return tokenizer.load_tokenizer(spm_model_file=path)


@pytest.fixture(scope="session")
def tiny_config():
    """A config of one layer, with dropout."""
    return tiny.config(
        num_hidden_layers=1, max_position_embeddings=16, hidden_dropout_prob=0.5
    )
