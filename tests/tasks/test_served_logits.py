import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.tasks import early_exit
from tests.exported_models import TINY_CONFIG


@pytest.mark.parametrize(
    "name",
    [pytest.param("classifier", marks=pytest.mark.slow), "multiple_choice"],
)
def test_the_export_decides_at_the_layer_of_the_prediction(name, export_task):
    export = export_task(
        name,
        albert_config=dataclasses.replace(TINY_CONFIG, num_hidden_layers=6),
        exit_patience=1,
    )
    rng = np.random.default_rng(0)
    # Lengths differ, so that there are several groups.
    shape = (8, 4, 40) if name == "multiple_choice" else (16, 40)
    lengths = rng.integers(4, 41, shape[:-1])
    mask = (np.arange(40) < lengths[..., None]).astype(np.int32)
    ids = rng.integers(5, 300, shape).astype(np.int32) * mask
    batch = {"input_ids": ids, "input_mask": mask, "segment_ids": mask * 0}

    found = export.ask("tokens", **batch)

    expected = early_exit.outputs(
        export.model,
        {name: tf.constant(values) for name, values in batch.items()},
        patience=1,
    )
    assert len({*found["num_layers"]}) > 1
    assert min(found["num_layers"]) < 6
    np.testing.assert_array_equal(found["num_layers"], expected["num_layers"])
    np.testing.assert_allclose(found["logits"], expected["logits"], atol=1e-4)
