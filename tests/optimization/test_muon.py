import keras
import numpy as np
import pytest

from albert_tf.optimization import muon, optimizers


@pytest.mark.parametrize(
    ("path", "is_taken"),
    [
        ("albert/encoder/attention_0_0/query/kernel", True),
        ("albert/encoder/attention_1_0/output/kernel", True),
        ("albert/encoder/feed_forward_0_1/intermediate/kernel", True),
        ("albert/encoder/attention_0_0/query/bias", False),
        ("albert/encoder/attention_0_0/layer_norm/gamma", False),
        ("albert/embeddings/word_embeddings", False),
        ("albert/embedding_projection/kernel", False),
        ("albert/pooler/kernel", False),
        ("masked_lm_head/transform/kernel", False),
        ("output_weights", False),
    ],
)
def test_muon_takes_the_kernels_of_the_blocks(path, is_taken):
    assert muon.is_orthogonalized(path) == is_taken


@pytest.mark.parametrize("shape", [(6, 4), (4, 4), (3, 8), (9, 3)])
def test_muon_makes_the_steps_of_a_plain_version(shape, make_variable):
    random = np.random.default_rng(0)
    weights = random.normal(size=shape).astype("float32")
    kernel = make_variable("encoder/attention_0_0/query/kernel", weights)
    other = make_variable("pooler/kernel", weights)
    twin = make_variable("pooler/kernel", weights)
    optimizer = muon.AlbertMuon(0.1, weight_decay=0.02, adamw_rate_ratio=0.25)
    optimizer.build([kernel, other])
    adamw = optimizers.AlbertAdamW(0.1, weight_decay=0.02)
    adamw.build([twin])
    momentum = np.zeros(shape)
    for _ in range(8):
        gradient = random.normal(size=shape).astype("float32")
        optimizer.update_step(gradient, kernel, 0.1)
        optimizer.update_step(gradient, other, 0.1)
        adamw.update_step(gradient, twin, 0.025)

        momentum = 0.95 * momentum + gradient
        # On singular values, the iteration is a polynomial.
        left, values, right = np.linalg.svd(
            gradient + 0.95 * momentum, full_matrices=False
        )
        values /= np.linalg.norm(values)
        for _ in range(5):
            values = 3.4445 * values - 4.775 * values**3 + 2.0315 * values**5
        direction = 0.2 * np.sqrt(max(shape)) * (left * values) @ right
        weights = weights - 0.1 * (direction + 0.02 * weights)
        np.testing.assert_allclose(kernel, weights, atol=1e-5)
    np.testing.assert_array_equal(other, twin)


@pytest.mark.parametrize("shape", [(96, 64), (64, 256)])
def test_muon_in_bfloat16_rounds_products_alone(shape):
    matrix = np.random.default_rng(0).normal(size=shape).astype("float32")

    exact, found = (
        keras.ops.convert_to_numpy(muon.orthogonalized(matrix, dtype))
        for dtype in ("float32", "bfloat16")
    )

    # With sums in bfloat16, too, the error is .058.
    error = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    assert error < 0.027


def test_muon_takes_the_stable_form_where_factors_are_rounded(monkeypatch):
    """Where they are, the form with fewer products diverges."""
    random = np.random.default_rng(0)
    left, _ = np.linalg.qr(random.normal(size=(64, 64)))
    right, _ = np.linalg.qr(random.normal(size=(256, 64)))
    values = np.arange(1, 65.0) ** -2
    matrix = ((left * values) @ right.T).astype("float32")
    values /= np.linalg.norm(values)
    for _ in range(5):
        values = 3.4445 * values - 4.775 * values**3 + 2.0315 * values**5
    exact = (left * values) @ right.T

    def error(device):
        monkeypatch.setattr(
            keras.distribution, "list_devices", lambda: [f"{device}:0"]
        )
        found = keras.ops.convert_to_numpy(muon.orthogonalized(matrix))
        return np.linalg.norm(found - exact) / np.linalg.norm(exact)

    assert error("cpu") < 2e-3
    assert error("gpu") < 2e-5
    assert error("tpu") < 2e-5
