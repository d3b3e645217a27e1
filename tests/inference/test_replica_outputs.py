"""Replicas compute the outputs that one device computes."""

import numpy as np
import pytest

from tests.training import runs


@pytest.mark.parametrize("bucket_width", [4, runs.S])
def test_replicas_give_the_outputs_of_one(bucket_width, two_replicas):
    columns = runs.columns(13)
    _, alone = runs.computer()
    _, replicas = runs.computer(two_replicas, bucket_width)

    one, two = alone.run(columns, 4), replicas.run(columns, 4)

    np.testing.assert_allclose(one["logits"], two["logits"], atol=1e-5)
    for ours, theirs in zip(one["token_sums"], two["token_sums"], strict=True):
        np.testing.assert_array_equal(ours, theirs)
