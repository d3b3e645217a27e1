"""Outputs of fewer layers; `test_conformance` has those of all models."""

import numpy as np

from albert_tf.modeling import packing, random_depth
from albert_tf.modeling.sequence_models import ClassifierModel
from tests import tiny


def test_packed_rows_may_have_a_random_depth():
    config = tiny.config(num_hidden_layers=2)
    model = ClassifierModel(config, num_labels=3, dropout_prob=0.0)
    batch = model.inputs_of(tiny.batch())
    packed_at = np.array([5, 0], "int32")

    by_depth = random_depth.outputs(
        model,
        batch | {"packed_at": packed_at},
        training=True,
        encode=packing.encode,
    )

    for depth, outputs in zip((2, 1), by_depth, strict=True):
        alone = model(batch, depth=depth)
        np.testing.assert_allclose(
            outputs["logits"], alone["logits"], atol=1e-6
        )
