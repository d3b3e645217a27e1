import pytest

from albert_tf.checkpoints.metadata import Metadata
from albert_tf.tasks.classification.spec import ClassifierSettings


@pytest.mark.parametrize("thresholds", [(), (0.2, 0.5, 0.9)])
def test_thresholds_that_are_not_known_are_told(thresholds):
    settings = ClassifierSettings(max_seq_length=9, thresholds=thresholds)

    notes = settings.notes(Metadata(multi_label=True))

    assert len(notes) == (not thresholds)
    for note in notes:
        assert "a threshold of 0.5 for every label" in str(note)
