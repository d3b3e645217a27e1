"""Models as checkpoints, loaded as predictors."""

import pytest

import albert_tf
from albert_tf.checkpoints.metadata import Metadata
from tests.exported_models import write_checkpoint


@pytest.fixture
def load(tmp_path, tiny_spm_model):
    """Writes a model as a checkpoint, and loads it as a predictor."""

    def make(
        model, known=None, vocabulary=tiny_spm_model, given=None, **options
    ):
        write_checkpoint(
            tmp_path,
            model,
            vocabulary=vocabulary and str(vocabulary),
            metadata=known or Metadata(),
        )
        return albert_tf.load_predictor(tmp_path, **options | (given or {}))

    return make
