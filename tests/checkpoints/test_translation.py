"""Numbers of checkpoints in the formats of other programs."""

import numpy as np

from albert_tf.checkpoints import translation
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata


def test_other_formats_have_logits_of_temperature_1():
    weights = np.array([[1, 2], [3, 4]], "float32")
    source = Checkpoint(
        arrays={"output_weights": weights, "output_bias": weights[0]},
        metadata=Metadata(temperature=4.0, thresholds=(0.5, 0.5)),
    )

    found = translation.in_units_of_labels(source)

    np.testing.assert_array_equal(found.arrays["output_weights"], weights / 4)
    np.testing.assert_array_equal(found.arrays["output_bias"], weights[0] / 4)
    # It is known to be 1, and not to be chosen again.
    assert found.metadata == Metadata(temperature=1.0, thresholds=(0.5, 0.5))


def test_numbers_stay_scaled_if_float32_is_too_coarse_for_them():
    arrays = {
        "output_weights": np.ones((1, 4), "float32"),
        "output_bias": np.ones(1, "float32"),
    }
    # Times in seconds; for a mean of 10, see `test_conversion.py`.
    metadata = Metadata(target_mean=1.7e9, target_scale=5.0)

    found = translation.in_units_of_labels(
        Checkpoint(arrays=arrays, metadata=metadata)
    )

    assert found.metadata.target_mean == 1.7e9
    assert found.arrays["output_bias"].item() == 1.0
