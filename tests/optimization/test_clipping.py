import keras
import numpy as np
import pytest

from albert_tf.optimization import clipping


def test_gradients_within_the_limit_are_left_alone():
    gradients = [np.float32([0.3, 0.0]), np.float32([[0.4]])]

    clipped, norm = clipping.clip_by_global_norm(gradients, 1.0)

    np.testing.assert_allclose(norm, 0.5, rtol=1e-6)
    np.testing.assert_array_equal(clipped[0], gradients[0])
    np.testing.assert_array_equal(clipped[1], gradients[1])


def test_gradients_beyond_the_limit_shrink_together():
    gradients = [np.float32([3.0, 0.0]), np.float32([[4.0]])]

    clipped, norm = clipping.clip_by_global_norm(gradients, 2.0)

    np.testing.assert_allclose(norm, 5.0, rtol=1e-6)
    np.testing.assert_allclose(clipped[0], [1.2, 0.0], rtol=1e-6)
    np.testing.assert_allclose(clipped[1], [[1.6]], rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_norm_that_is_not_finite_spoils_every_gradient(bad):
    gradients = [np.float32([1.0, bad]), np.float32([2.0])]

    clipped, norm = clipping.clip_by_global_norm(gradients)

    assert not np.isfinite(norm)
    assert np.isnan(np.concatenate(clipped)).all()


@pytest.mark.parametrize("stem", ["adamw_clip", "lamb_clip"])
def test_recorded_gradients_are_clipped_alike(recorded, check_close, stem):
    arrays = recorded(stem)
    names = [key[5:] for key in arrays if key.startswith("grad/")]

    for step, recorded_norm in enumerate(arrays["grad_global_norm"]):
        clipped, norm = clipping.clip_by_global_norm(
            [arrays[f"grad/{name}"][step] for name in names]
        )

        np.testing.assert_allclose(norm, recorded_norm, rtol=2e-6)
        for name, gradient in zip(names, clipped, strict=True):
            wanted = arrays[f"clipped_grad/{name}"][step]
            check_close(gradient, wanted, 2e-6, f"{name}, step {step}")


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="only TensorFlow has slices"
)
def test_slices_of_one_row_are_added_up_before_the_norm():
    import tensorflow as tf

    # Rows 1 and 1 of a table of 4: the true gradient of row 1 is (3, 4).
    slices = tf.IndexedSlices(
        tf.constant([[1.0, 4.0], [2.0, 0.0]]),
        tf.constant([1, 1]),
        tf.constant([4, 2]),
    )

    clipped, norm = clipping.clip_by_global_norm([slices], 1.0)

    np.testing.assert_allclose(norm, 5.0, rtol=1e-6)
    np.testing.assert_allclose(
        clipped[0], [[0, 0], [0.6, 0.8], [0, 0], [0, 0]], rtol=1e-6
    )
