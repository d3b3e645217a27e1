import numpy as np

from albert_tf.metrics import probabilities


def test_probabilities_are_those_of_the_exponentials():
    logits = np.log(np.array([[1.0, 3.0], [5.0, 5.0]]))

    found = probabilities.softmax(logits)

    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[0.25, 0.75], [0.5, 0.5]], rtol=1e-6)


def test_probabilities_of_large_logits_are_finite():
    found = probabilities.softmax(np.array([[1e4, 0.0], [-1e4, 0.0]]))

    np.testing.assert_array_equal(found, [[1, 0], [0, 1]])
