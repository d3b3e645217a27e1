import pytest

import albert_tf
from albert_tf.checkpoints.metadata import Metadata
from tests.exported_models import write_checkpoint
from tests.inference.test_predictor import CONFIG


@pytest.fixture
def classifier_folder(tmp_path, tiny_spm_model):
    """A folder with a classifier of the labels ham and grün."""
    write_checkpoint(
        tmp_path,
        albert_tf.ClassifierModel(CONFIG, num_labels=2),
        vocabulary=str(tiny_spm_model),
        metadata=Metadata(labels=("ham", "grün")),
    )
    return tmp_path
