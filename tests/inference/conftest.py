"""Models as checkpoints, loaded as predictors."""

import pytest

import albert_tf
from albert_tf.checkpoints import tf1, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata


@pytest.fixture
def load(tmp_path, tiny_spm_model):
    """Writes a model as a checkpoint, and loads it as a predictor."""

    def make(model, known=None, vocabulary=tiny_spm_model, **options):
        by_name = variable_names.variables_by_tf1_name(model.weights)
        source = Checkpoint(
            arrays={name: v.numpy() for name, v in by_name.items()},
            config=model.config,
            vocabulary=vocabulary and str(vocabulary),
            metadata=known or Metadata(),
        )
        tf1.write_ours(str(tmp_path), source)
        return albert_tf.load_predictor(tmp_path, **options)

    return make
