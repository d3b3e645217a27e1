"""The operations of a training step, compiled; see `operations`.

Each computes the same formula as `operations.Operations`. What is large enough
is compiled as one kernel, and so is its gradient, in closed form. Matrices
that several blocks share are cast once, see `shared_weights`.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence

import keras
from keras import ops

from albert_tf.modeling import Tensor, operations
from albert_tf.modeling.fused import fusion, shared_weights
from albert_tf.modeling.fused.fusion import custom_gradient, row_sums
from albert_tf.modeling.operations import Function


class Kernels(fusion.Fusion, operations.Operations):
    """Operations of which the large ones are compiled.

    Args:
        compile_function: As for `Fusion`.
        dtype: Compute dtype of the models. If the back end's own softmax is
            exact in it, it is used.
        recompute: Whether a call of a sublayer keeps its inputs alone for the
            gradient, which computes the rest once more.
    """

    def __init__(
        self,
        compile_function: Callable[[Function], Function] | None = None,
        *,
        dtype: str = "float32",
        recompute: bool = False,
    ) -> None:
        super().__init__(compile_function)
        self._recompute = recompute
        # In float32, the compiled softmax is as exact.
        self._has_softmax = dtype != "float32" and has_float32_softmax(dtype)
        self._with_row_sums = functools.cache(
            functools.partial(functools.partial, sum_of_all=fusion.sum_of_all)
        )

    def linear(
        self,
        inputs: Tensor,
        kernel: Tensor,
        bias: Tensor | None = None,
        *,
        activation: Function = keras.activations.linear,
    ) -> Tensor:
        """See `Operations`. One vector of each sequence is too little."""
        if len(inputs.shape) < 3:
            return super().linear(inputs, kernel, bias, activation=activation)
        outputs, shape = operations.product(inputs, kernel)
        if activation is keras.activations.linear or self.fuses(inputs):
            outputs = ops.reshape(outputs, shape)
        if bias is not None:
            if not self.fuses(outputs):
                outputs = ops.add(outputs, ops.cast(bias, outputs.dtype))
            elif activation in _GELU_GRADIENTS:
                gradient = _GELU_GRADIENTS[activation]
                outputs = self.call_on_sum(
                    activation, gradient, (outputs, bias)
                )
                return ops.reshape(outputs, shape)
            else:
                outputs = self.add(outputs, bias)
        return ops.reshape(activation(outputs), shape)

    def add_and_normalize(
        self, *addends: Tensor, gamma: Tensor, beta: Tensor
    ) -> Tensor:
        """See `Operations`."""
        if not self.fuses(addends[0]):
            return super().add_and_normalize(*addends, gamma=gamma, beta=beta)
        return self.call_on_sum(
            _normalize_in_kernel, _normalize_gradient, addends, gamma, beta
        )

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
        """See `Operations`. Of the gradient, elementwise parts are compiled."""
        scores, mask, scale = operations.attention_scores(
            query, key, attention_mask
        )
        if not self.fuses(scores):
            probabilities = operations.softmax(scores, mask, scale)
            return ops.matmul(drop(probabilities, seed=seed), value)

        @custom_gradient
        def average(
            scores: Tensor, value: Tensor, mask: Tensor, *seeds: Tensor
        ) -> Tensor:
            seed = seeds[0] if seeds else None
            probabilities = self._softmax(scores, mask, scale)
            dropped = drop(probabilities, seed=seed)
            output = ops.matmul(dropped, value)

            def grad(upstream: Tensor) -> Tensor:
                of_dropped = ops.matmul(upstream, ops.swapaxes(value, -1, -2))
                of_scores = self.call(
                    _softmax_gradient,
                    drop(of_dropped, seed=seed),
                    probabilities,
                    scale,
                )
                of_value = ops.matmul(ops.swapaxes(dropped, -1, -2), upstream)
                return of_scores, of_value, None, *[None] * len(seeds)

            return output, grad

        seeds = [] if seed is None else [ops.convert_to_tensor(seed)]
        return average(scores, value, mask, *seeds)

    def _softmax(self, scores: Tensor, mask: Tensor, scale: float) -> Tensor:
        # Only a power of two scales without rounding.
        is_exact = math.frexp(scale)[0] == 0.5
        if not (is_exact and self._has_softmax):
            return self.call(operations.softmax, scores, mask, scale)
        # A softmax is the same if all scores of a row are shifted. Added to
        # the mask of a row that is all padding, they would be rounded to
        # multiples of 64 in bfloat16.
        shifted = mask - ops.max(mask, axis=-1, keepdims=True)
        scaled = scores * ops.cast(scale, scores.dtype)
        return ops.softmax(scaled + ops.cast(shifted, scores.dtype))

    def cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """See `Operations`."""
        labels = ops.convert_to_tensor(labels)
        is_per_row = labels.shape == logits.shape[:-1]
        if not (self.fuses(logits) and is_per_row):
            return super().cross_entropy(logits, labels)

        @custom_gradient
        def in_kernels(logits: Tensor, labels: Tensor) -> Tensor:
            loss, largest, log_total = self.call(
                _loss_and_total, logits, labels
            )

            def grad(upstream: Tensor) -> Tensor:
                inputs = logits, labels, largest, log_total, upstream
                return self.call(_cross_entropy_gradient, *inputs), None

            return loss, grad

        return in_kernels(logits, labels)

    def copies(self, tensor: Tensor, num_copies: int) -> list[Tensor]:
        """See `Operations`. The gradients of all copies are added at once."""
        return fusion.copy_for_gradients(tensor, num_copies, self)

    def calls(
        self, layers: Sequence[keras.layers.Layer], order: Sequence[int]
    ) -> list[Function]:
        """See `Operations`, and `shared_weights`."""
        return shared_weights.calls(layers, order, self, self._recompute)

    def update(self, function: Function, *arrays: Tensor) -> Tensor:
        """See `Operations`. The update of a large weight is one kernel."""
        if not self.fuses(arrays[0]):
            return super().update(function, *arrays)
        return self.call(self._with_row_sums(function), *arrays)


@contextlib.contextmanager
def computing_with(
    layer: keras.layers.Layer, others: operations.Operations
) -> Iterator[None]:
    """Lets a layer or model, with all layers in it, use other operations.

    Gradients are taken in this context, too, because what is recomputed for
    them calls the layers once more.
    """
    # The `operations` of a functional model of Keras are something else.
    before = {
        inner: inner.operations
        for inner in layer._flatten_layers()
        if isinstance(getattr(inner, "operations", None), operations.Operations)
    }
    for inner in before:
        inner.operations = others
    try:
        yield
    finally:
        for inner, previous in before.items():
            inner.operations = previous


def casting_once(
    model: keras.Model, trace: Callable[[Function], Function] = lambda f: f
) -> contextlib.AbstractContextManager[None]:
    """Casts matrices that blocks share once a call, and compiles nothing.

    For graphs without gradients; they keep it when the context has ended.
    `trace` makes a function of a graph of a sublayer that blocks share, as
    `tf.function` does.
    """
    return computing_with(model, _SharedCalls(trace))


class _SharedCalls(Kernels):
    """Kernels without gradients: all calls of a layer are one function."""

    def __init__(self, trace: Callable[[Function], Function]) -> None:
        super().__init__()
        self._trace = trace

    def calls(
        self, layers: Sequence[keras.layers.Layer], order: Sequence[int]
    ) -> list[Function]:
        calls = dict(zip(order, super().calls(layers, order), strict=True))
        for index in calls:
            if order.count(index) > 1:
                calls[index] = self._trace(calls[index])
        return [calls[index] for index in order]


@functools.cache
def has_float32_softmax(dtype: str) -> bool:
    """Returns whether the softmax of a dtype is computed in float32.

    It depends on the machine: in bfloat16, TensorFlow on a CPU may have a
    kernel of oneDNN, which rounds the result only and is faster than a
    compiled one, or a kernel that rounds at every step.
    """
    inputs = ops.cast(ops.linspace(-8.0, 8.0, 512, dtype="float32"), dtype)
    expected = ops.softmax(ops.cast(inputs, "float32"))
    return bool(ops.all(ops.softmax(inputs) == ops.cast(expected, dtype)))


_GELU_SCALE = math.sqrt(2 / math.pi)
_GELU_CUBIC = 0.044715


def _gelu_gradient(inputs: Tensor, upstream: Tensor) -> list[Tensor]:
    # x (1 + tanh(z)) / 2 with z = sqrt(2 / pi) (x + c x^3).
    cubic = _GELU_CUBIC * inputs * inputs
    tanh = ops.tanh(_GELU_SCALE * inputs * (1 + cubic))
    slope = (1 - tanh * tanh) * _GELU_SCALE * (1 + 3 * cubic)
    return [upstream * (1 + tanh + inputs * slope) / 2]


def _gelu_erf_gradient(inputs: Tensor, upstream: Tensor) -> list[Tensor]:
    density = ops.exp(-inputs * inputs / 2) / math.sqrt(2 * math.pi)
    distribution = (1 + ops.erf(inputs / math.sqrt(2))) / 2
    return [upstream * (distribution + inputs * density)]


_GELU_GRADIENTS = {
    operations.gelu: _gelu_gradient,
    operations.gelu_erf: _gelu_erf_gradient,
}


def _row_means_in_kernel(tensor: Tensor) -> Tensor:
    return row_sums(tensor) / tensor.shape[-1]


def _normalize_in_kernel(inputs: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    standard, _ = operations.standardize(inputs, _row_means_in_kernel)
    return standard * gamma + beta


def _normalize_gradient(
    inputs: Tensor, gamma: Tensor, beta: Tensor, upstream: Tensor
) -> list[Tensor]:
    del beta
    standard, scale = operations.standardize(inputs, _row_means_in_kernel)
    # The part of the gradient that changes neither mean nor deviation.
    gradient = upstream * gamma
    mean = _row_means_in_kernel(gradient)
    along = _row_means_in_kernel(gradient * standard)
    gradient = (gradient - mean - along * standard) * scale
    return [gradient, upstream * standard, upstream]


def _softmax_gradient(
    upstream: Tensor, probabilities: Tensor, scale: Tensor
) -> Tensor:
    """Returns the gradient of the scores, given that of the probabilities.

    The gradients of a row add up to 0. So the average of `upstream` is not
    taken from the rounded output, which would be less to compute, and the
    probabilities, which are rounded, too, are not assumed to add up to 1. A
    rest would be multiplied by the mean of all keys.
    """
    dtype = probabilities.dtype
    upstream, probabilities = (
        ops.cast(x, "float32") for x in (upstream, probabilities)
    )
    total = row_sums(upstream * probabilities)
    change = upstream - total / row_sums(probabilities)
    return ops.cast(change * probabilities * scale, dtype)


def _loss_and_total(
    logits: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the loss `[...]`, and what its gradient needs, `[..., 1]`.

    That is the largest logit, and the logarithm of the sum of all exponentials
    after it has been subtracted. Their sum would be rounded like a logit, which
    may be much larger than a loss.
    """
    logits = ops.cast(logits, "float32")
    largest = ops.max(logits, axis=-1, keepdims=True)
    log_total = ops.log(row_sums(ops.exp(logits - largest)))
    is_class = _is_class(labels, logits)
    chosen = ops.cast(ops.where(is_class, labels, 0), "int32")[..., None]
    label_logits = ops.take_along_axis(logits, chosen, axis=-1) - largest
    loss = ops.squeeze(log_total - label_logits, -1)
    return ops.where(is_class, loss, math.nan), largest, log_total


def _cross_entropy_gradient(
    logits: Tensor,
    labels: Tensor,
    largest: Tensor,
    log_total: Tensor,
    upstream: Tensor,
) -> Tensor:
    """Returns probabilities, less 1 at the label, times `upstream`."""
    shifted = ops.cast(logits, "float32") - largest
    probabilities = ops.exp(shifted - log_total)
    classes = ops.arange(logits.shape[-1], dtype="int32")
    chosen = ops.cast(labels, "int32")[..., None]
    hits = ops.cast(ops.equal(classes, chosen), "float32")
    upstream = ops.where(_is_class(labels, logits), upstream, math.nan)
    gradient = (probabilities - hits) * upstream[..., None]
    return ops.cast(gradient, logits.dtype)


def _is_class(labels: Tensor, logits: Tensor) -> Tensor:
    return ops.logical_and(labels >= 0, labels < logits.shape[-1])
