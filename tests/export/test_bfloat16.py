"""In bfloat16 matrices are half the size, and answers nearly the same."""

import math
import pathlib

import numpy as np
import pytest

TEXTS = [
    "The house stood on a hill.",
    "Where did the old man sit? By the river.",
    "Café ½ 1,234,",
    "It was cold, and the boy ran into the house of the old man.",
]
OPTIONS = ["snow", "A boy.", "the hill", "25, or so"]
PAIR = {"text_a": TEXTS, "text_b": TEXTS[::-1]}
QUESTION = {"question": TEXTS, "context": TEXTS[::-1]}
CHOICE = {"article": TEXTS, "question": ["It is _ ."] * 4}
REQUESTS = {
    "served_encoder": PAIR,
    "served_classifier": PAIR,
    "served_regression": PAIR,
    "served_squad_1": QUESTION,
    "served_squad_2": QUESTION,
    "served_race": CHOICE | {"options": [OPTIONS] * 4},
}
# Of the length of what float32 gives. The weights are large, so that a wrong
# one would give something else altogether.
MAX_DIFFERENCE = 0.1
BYTES_SAVED_PER_VALUE = 2


@pytest.mark.parametrize(
    "name",
    [
        "served_classifier",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in REQUESTS
            if name != "served_classifier"
        ),
    ],
)
def test_an_export_in_bfloat16(name, request):
    full = request.getfixturevalue(name)

    half = full.again(precision="bfloat16", tflite=False)

    # The next version, beside the other.
    folder = pathlib.Path(full.summary.path).parent
    assert half.summary.path == str(folder / "2")
    shapes = [weight.shape for weight in full.model.weights]
    num_values = sum(math.prod(shape) for shape in shapes if len(shape) > 1)
    saved = _size_of_variables(full) - _size_of_variables(half)
    assert saved == num_values * BYTES_SAVED_PER_VALUE
    expected = full.ask(**REQUESTS[name])
    found = half.ask(**REQUESTS[name])
    assert found.keys() == expected.keys()
    for output, values in expected.items():
        assert found[output].dtype == values.dtype, output
        if values.dtype == np.float32:
            distance = np.linalg.norm(found[output] - values)
            assert distance <= MAX_DIFFERENCE * np.linalg.norm(values), output
        else:
            assert found[output].tolist() == values.tolist(), output


def _size_of_variables(exported):
    folder = pathlib.Path(exported.summary.path, "variables")
    [file] = folder.glob("variables.data-*")
    return file.stat().st_size
