"""A tiny config and batch, and models whose operations are compiled or not."""

import pytest

from albert_tf.modeling.operations import PLAIN
from tests import fusing, tiny


@pytest.fixture
def tiny_config():
    return tiny.config()


@pytest.fixture
def tiny_batch():
    return tiny.batch()


@pytest.fixture(scope="session", params=["plain", "fused"])
def operations(request):
    """Plain operations, and compiled ones of any size."""
    return fusing.FusesAll() if request.param == "fused" else PLAIN
