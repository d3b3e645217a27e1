"""A tiny config and batch."""

import pytest

from tests import tiny


@pytest.fixture
def tiny_config():
    return tiny.config()


@pytest.fixture
def tiny_batch():
    return tiny.batch()
