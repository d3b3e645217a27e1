"""The recorded steps, and variables under the names they were recorded for."""

import contextlib
import pathlib

import keras
import numpy as np
import pytest

_FOLDER = pathlib.Path(__file__).parents[1] / "parity" / "optimizer"


@pytest.fixture(scope="session")
def recorded():
    """A function from a file's stem to its arrays by key."""

    def load(stem):
        with np.load(_FOLDER / f"{stem}.npz") as arrays:
            return dict(arrays)

    return load


@pytest.fixture(scope="session")
def make_variable():
    """A function from a path and a value to a Keras variable."""

    def make(path, value, **options):
        *scopes, name = path.split("/")
        with contextlib.ExitStack() as stack:
            for scope in scopes:
                stack.enter_context(keras.name_scope(scope))
            return keras.Variable(value, name=name, **options)

    return make


@pytest.fixture(scope="session")
def check_close():
    """A check of `max|got - wanted| <= tolerance * max|wanted|`."""

    def check(got, wanted, tolerance, what):
        got, wanted = np.asarray(got), np.asarray(wanted)
        assert got.shape == wanted.shape, what
        distance = np.max(np.abs(got - wanted))
        assert distance <= tolerance * np.max(np.abs(wanted)), what

    return check
