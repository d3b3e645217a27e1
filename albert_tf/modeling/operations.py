"""The formulas of a block: linear layer, GELU, layer normalization, attention.

A layer calls them as methods of its `operations`, an `Operations`. A training
step may replace this object temporarily by compiled kernels; see `fused`.

Source: google-research/albert, `modeling.gelu`,
`modeling.dot_product_attention`, and its calls of
`tf.contrib.layers.layer_norm`; Vaswani et al. 2017, section 3.2.1.
"""

from collections.abc import Callable, Sequence

import keras
from keras import ops

from albert_tf.modeling import Tensor

# TF1: contrib.layer_norm used 1e-12; the Keras default, 1e-3, moves every
# output of the published checkpoints.
LAYER_NORM_EPSILON = 1e-12

# TF1: a finite number, so that a row that is all padding attends evenly to
# its padding instead of becoming NaN.
MASKED_SCORE = -10000.0

Function = Callable[..., Tensor]


class Operations:
    """Computes each formula as it is written in the papers."""

    def linear(
        self,
        inputs: Tensor,
        kernel: Tensor,
        bias: Tensor | None = None,
        *,
        activation: Function = keras.activations.linear,
    ) -> Tensor:
        """Applies a linear map to vectors, and an activation to its outputs.

        The inputs are float `[..., in]`, the kernel `[in, out]` and the bias
        `[out]`; the result has the dtype of the inputs.
        """
        outputs, shape = product(inputs, kernel)
        # TensorFlow computes product, bias and activation in one kernel if no
        # reshape separates them. Only with an activation is that faster.
        if activation is keras.activations.linear:
            outputs = ops.reshape(outputs, shape)
        if bias is not None:
            outputs = ops.add(outputs, ops.cast(bias, outputs.dtype))
        return ops.reshape(activation(outputs), shape)

    def add_and_normalize(
        self, *addends: Tensor, gamma: Tensor, beta: Tensor
    ) -> Tensor:
        """Normalizes every row of a sum, scales it by `gamma`, adds `beta`.

        `gamma` and `beta` are float32 `[H]`, the addends `[..., H]` of any
        float dtype; the arithmetic is in float32, and the result has the dtype
        of the first addend.
        """
        inputs = add(*addends)
        standard, _ = standardize(inputs, row_means)
        return ops.cast(standard * gamma + beta, inputs.dtype)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor,
        *,
        drop: Function,
        seed: Tensor | None = None,
    ) -> Tensor:
        """Computes scaled dot-product attention, `softmax(Q K^T / sqrt(D)) V`.

        Query and result are `[B, N, Q, D]`, key and value `[B, N, S, D]`, of
        one float dtype; the softmax is always computed in float32. The mask is
        int `[B, 1, 1, S]`, or `[B, 1, Q, S]` with one row for each query: 1
        where the key may be attended to, else 0. `drop` drops a share of the
        probabilities, `[B, N, Q, S]`, by the `seed`; see `dropout.dropout`.
        """
        scores = attention_scores(query, key, attention_mask)
        return ops.matmul(drop(softmax(*scores), seed=seed), value)

    def cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Returns minus the logarithm of each label's probability, float32.

        The logits are float `[..., K]`, the labels int `[...]`, 0 to K - 1.
        A label out of range is an error, or gives NaN, or a loss of 0 on JAX.
        """
        return ops.sparse_categorical_crossentropy(
            labels, ops.cast(logits, "float32"), from_logits=True
        )

    def copies(self, tensor: Tensor, num_copies: int) -> list[Tensor]:
        """Returns one tensor several times; `fused` adds gradients at once."""
        return [tensor] * num_copies

    def calls(
        self, layers: Sequence[keras.layers.Layer], order: Sequence[int]
    ) -> list[Function]:
        """Returns the layers at indices `order`; `fused` casts weights once."""
        return [layers[index] for index in order]

    def update(self, function: Function, *arrays: Tensor) -> Tensor:
        """Calls an optimizer's update of one weight.

        The function's argument `sum_of_all` sums all elements of an array.
        """
        return function(*arrays, sum_of_all=ops.sum)


PLAIN = Operations()


# TF1: every released model was trained with the tanh form; the exact formula,
# with erf, moves the outputs by 5e-4 of their largest value.
def gelu(inputs: Tensor) -> Tensor:
    """Computes GELU (Gaussian error linear unit), approximated by tanh."""
    return ops.gelu(inputs, approximate=True)


def gelu_erf(inputs: Tensor) -> Tensor:
    """Computes GELU exactly, with the error function (erf)."""
    return ops.gelu(inputs, approximate=False)


def add(first: Tensor, *others: Tensor) -> Tensor:
    """Returns a sum in the dtype of the first addend."""
    for other in others:
        other = ops.cast(other, first.dtype)
        # On TensorFlow, `ops.add` adds a vector as a bias, in one kernel with a
        # product; but it mistakes a matrix without rows for a vector.
        first = ops.add(first, other) if other.ndim == 1 else first + other
    return first


def product(inputs: Tensor, kernel: Tensor) -> tuple[Tensor, tuple[Tensor]]:
    """Returns a product `[rows, out]`, and its shape with all leading axes."""
    *leading, size = ops.shape(inputs)
    rows = ops.reshape(inputs, (-1, size))
    outputs = ops.matmul(rows, ops.cast(kernel, inputs.dtype))
    return outputs, (*leading, kernel.shape[-1])


def row_means(inputs: Tensor) -> Tensor:
    """Returns the mean of each row, `[..., 1]`."""
    return ops.mean(inputs, axis=-1, keepdims=True)


def standardize(
    inputs: Tensor, row_means: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Returns rows of mean 0 and variance 1, and 1 / standard deviation."""
    inputs = ops.cast(inputs, "float32")
    centered = inputs - row_means(inputs)
    variance = row_means(ops.square(centered))
    scale = ops.rsqrt(variance + LAYER_NORM_EPSILON)
    return centered * scale, scale


def attention_scores(
    query: Tensor, key: Tensor, attention_mask: Tensor
) -> tuple[Tensor, Tensor, float]:
    """Returns `Q K^T`, the mask to add after scaling, and `1 / sqrt(D)`."""
    scores = ops.matmul(query, ops.swapaxes(key, -1, -2))  # [B, N, Q, S]
    mask = MASKED_SCORE * (1.0 - ops.cast(attention_mask, "float32"))
    return scores, mask, query.shape[-1] ** -0.5


def softmax(scores: Tensor, mask: Tensor, scale: Tensor) -> Tensor:
    """Returns the probabilities of the keys, computed in float32."""
    scaled = ops.cast(scores, "float32") * scale
    return ops.cast(ops.softmax(scaled + mask, axis=-1), scores.dtype)
