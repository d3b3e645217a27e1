"""Muon for the kernels of the blocks, AdamW for all other weights.

gradient -> momentum -> orthogonal direction -> decay

Source: Jordan et al. 2024 (https://kellerjordan.github.io/posts/muon), with the
scale and decay of Liu et al. 2025 (arXiv 2502.16982), section 2.2.
"""

import math
import re
from typing import Any

import keras
from keras import ops

from albert_tf.modeling import Tensor
from albert_tf.optimization.optimizers import AlbertAdamW

_KERNEL_OF_BLOCK = re.compile(
    r"(^|/)encoder/(attention|feed_forward)_\d+_\d+/\w+/kernel$"
)
# Coefficients of Jordan et al.: in five iterations, all singular values come
# near 1.
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
_NUM_ITERATIONS = 5
# Makes an update about as long as one of AdamW, whatever the shape.
_MUON_SCALE = 0.2


def is_orthogonalized(path: str) -> bool:
    """Returns whether Muon makes the update of a weight orthogonal.

    These are the kernels of the blocks, of every group; not the embeddings,
    the heads, norms and biases. `path` is as of `optimizers.is_excluded`.

    >>> is_orthogonalized("albert/encoder/attention_0_0/query/kernel")
    True
    """
    return bool(_KERNEL_OF_BLOCK.search(path))


def orthogonalized(matrix: Tensor, dtype: str = "float32") -> Tensor:
    """Returns a matrix with its singular vectors and values near 1, float32.

    Five Newton-Schulz iterations bring most of them between 0.7 and 1.2.
    Products of matrices are of type `dtype`, sums are in float32. On a CPU, a
    wide matrix in float32 takes fewer products.
    """

    def product(first: Tensor, second: Tensor) -> Tensor:
        result = ops.matmul(ops.cast(first, dtype), ops.cast(second, dtype))
        return ops.cast(result, "float32")

    def polynomial(squared: Tensor) -> Tensor:
        return b * squared + c * product(squared, squared)

    a, b, c = _NEWTON_SCHULZ
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = ops.transpose(matrix) if is_tall else matrix
    # At most 1, so that the iterations converge.
    x = x / (ops.sqrt(ops.sum(ops.square(x))) + 1e-7)
    num_rows, num_columns = x.shape
    is_wide = num_columns >= 2 * num_rows
    if is_wide and dtype == "float32" and _has_float32_products():
        # All iterations together are a polynomial in `squared`, times x: two
        # wide products instead of ten. With rounded factors, it diverges.
        squared = product(x, ops.transpose(x))
        constant = a * ops.eye(num_rows)
        all_factors = factor = constant + polynomial(squared)
        for _ in range(_NUM_ITERATIONS - 1):
            squared = product(product(factor, squared), factor)
            factor = constant + polynomial(squared)
            all_factors = product(factor, all_factors)
        x = product(all_factors, x)
    else:
        for _ in range(_NUM_ITERATIONS):
            squared = product(x, ops.transpose(x))
            x = a * x + product(polynomial(squared), x)
    return ops.transpose(x) if is_tall else x


def _has_float32_products() -> bool:
    """Returns whether the factors of a product in float32 are not rounded.

    By default, GPUs round them to TF32, TPUs to bfloat16. On PyTorch, Keras
    does not know the devices.
    """
    if keras.backend.backend() == "torch":
        return False
    devices: list[str] = keras.distribution.list_devices()
    return devices[0].startswith("cpu")


@keras.saving.register_keras_serializable("albert_tf")
class AlbertMuon(AlbertAdamW):
    """Muon for the kernels of the blocks, AdamW for all other weights.

    Which they are, `is_orthogonalized` says. Their `m` is the momentum of the
    gradient, their `v` stays 0, and they decay apart from their direction.

    Args:
        adamw_rate_ratio: Learning rate of the other weights, as a share of
            that of the kernels.
        product_dtype: Type of the products that make updates orthogonal.
        *args: Arguments of `AlbertAdamW`, as `**kwargs`.
    """

    momentum = 0.95
    _saved = (*AlbertAdamW._saved, "adamw_rate_ratio", "product_dtype")

    def __init__(
        self,
        *args: Any,
        adamw_rate_ratio: float = 0.4,
        product_dtype: str = "float32",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.adamw_rate_ratio = adamw_rate_ratio
        self.product_dtype = product_dtype

    def build(self, variables: list[keras.Variable]) -> None:
        """Creates the slots; see `AlbertAdamW.build`."""
        super().build(variables)
        if "matrix" not in self._rules:
            raise ValueError(
                "Muon is for the kernels of the blocks, and none is trained. "
                "Use adamw."
            )

    def _rule(self, path: str) -> str:
        return "matrix" if is_orthogonalized(path) else super()._rule(path)

    def _updated(
        self, *arrays: Tensor, rule: str, **options: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        gradient, m, v, weight, rate, num_updates = arrays
        if rule != "matrix":
            numbers = rate * self.adamw_rate_ratio, num_updates
            arrays = gradient, m, v, weight, *numbers
            return super()._updated(*arrays, rule=rule, **options)
        m = self.momentum * m + gradient
        nesterov = gradient + self.momentum * m
        direction = orthogonalized(nesterov, self.product_dtype)
        direction *= _MUON_SCALE * math.sqrt(max(weight.shape))
        direction += self.weight_decay * weight
        return m, v, weight - rate * direction
