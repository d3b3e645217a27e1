"""Compiles elementwise operations as one kernel, and their gradient as one.

A back end computes such operations one by one, and the gradient from what each
of them has kept: mostly memory traffic. A compiled gradient in closed form
takes nothing but output and inputs. The numbers are the same up to rounding;
what is compiled computes in float32 in every precision.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

# Number of values from which on a kernel saves more than its start costs.
SMALLEST_SIZE = 2**16
# Taken for an axis whose length is not known. A kernel is compiled for each
# length that comes, which does not pay for small layers.
ASSUMED_LENGTH = 32

Function = Callable[..., Any]


class Fusion:
    """Compiles the operations of a step that are large enough.

    A call of a layer or model takes one as `fusion`; None compiles nothing.

    Args:
        compile_function: Takes a function and returns its compiled form for a
            CPU, as `tf.function(..., jit_compile=True)` and `jax.jit` do. (On
            other devices, sums of rows may be rounded.)
        dtype: Compute dtype of the models. If the back end's own softmax is
            exact in it, it is used.
    """

    def __init__(
        self,
        compile_function: Callable[[Function], Function],
        *,
        dtype: str = "float32",
    ) -> None:
        self._compiled = functools.cache(compile_function)
        # In float32, the compiled softmax is as exact.
        has_softmax = dtype != "float32" and has_float32_softmax(dtype)
        self._softmax_dtype = dtype if has_softmax else None

    def fuses(self, tensor: Any) -> bool:
        """Returns whether operations on a tensor of this size are compiled."""
        size = math.prod([n or ASSUMED_LENGTH for n in tensor.shape])
        return size >= SMALLEST_SIZE

    def uses_softmax(self, scores: Any) -> bool:
        """Returns whether the softmax is that of the back end."""
        dtype = keras.backend.standardize_dtype(scores.dtype)
        return dtype == self._softmax_dtype

    def call(self, function: Function, *inputs: Any) -> Any:
        """Calls a function, compiled, whose gradient nobody asks for."""
        return self._compiled(function)(*map(_read, inputs))

    def call_on_sum(
        self,
        function: Function,
        gradient: Function,
        addends: Sequence[Any],
        *others: Any,
    ) -> Any:
        """Calls a function of a sum that has a gradient in closed form.

        Args:
            function: Takes the sum and the other inputs, and returns a tensor
                of the shape of the sum.
            gradient: Takes the gradient of the output, the output, the sum and
                the other inputs, all in float32; returns a list, the gradients
                of the sum and of the other inputs. One with more axes than its
                input is summed over the leading ones.
            addends: What to add up. The first has shape and dtype of the
                output; the others have its shape or that of its last axes, as
                a bias has.
            *others: What `function` is called with besides.

        Returns:
            The output of `function`.
        """
        num_addends = len(addends)

        @ops.custom_gradient
        def call(*inputs: Any) -> Any:
            output = self.call(_in_float32(function, num_addends), *inputs)

            def grad(*args: Any, upstream: Any = None) -> Any:
                [upstream] = upstreams(args, upstream)
                of_sum, *of_others = self.call(
                    _of_inputs(gradient, num_addends), upstream, output, *inputs
                )
                return _complete([of_sum] * num_addends + of_others, inputs)

            return output, grad

        return call(*map(_read, (*addends, *others)))

    def add(self, *addends: Any) -> Any:
        """Returns the sum of `addends`, as `call_on_sum` takes them."""

        @ops.custom_gradient
        def call(*inputs: Any) -> Any:
            def grad(*args: Any, upstream: Any = None) -> Any:
                of_all = upstreams(args, upstream) * len(inputs)
                return _complete(of_all, inputs)

            return self.call(_in_float32(_same, len(inputs)), *inputs), grad

        return call(*map(_read, addends))


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


def upstreams(args: Any, upstream: Any) -> list[Any]:
    """Returns the gradients of all outputs of a function, as one list.

    Back ends call the second result of an `ops.custom_gradient` in different
    ways: with one argument for each output, with one list, or by name.
    """
    return keras.tree.flatten(args if upstream is None else upstream)


def row_sums(tensor: Any) -> Any:
    """Returns the sum of each row of a float32 tensor, `[..., 1]`.

    It is a product: on a CPU, a compiled one uses all cores, while a compiled
    sum over the last axis uses one.
    """
    ones = ops.ones((ops.shape(tensor)[-1], 1), "float32")
    return ops.matmul(tensor, ones)


def sum_of_all(tensor: Any) -> Any:
    """Returns the sum of all values of a float32 tensor, for a kernel."""
    # A product adds up a vector value by value, which loses digits.
    return ops.sum(row_sums(tensor) if len(tensor.shape) > 1 else tensor)


def fan_out(
    tensor: Any, num_copies: int, fusion: Fusion | None, dtype: Any = None
) -> list[Any]:
    """Returns copies of a tensor, in its dtype or in another one.

    The gradients of all of them are added in one kernel, in float32.
    """
    is_fused = fusion and fusion.fuses(tensor)
    if dtype in (None, tensor.dtype) and not is_fused:
        return [tensor] * num_copies

    @ops.custom_gradient
    def copy(tensor: Any) -> Any:
        def grad(*args: Any, upstream: Any = None) -> Any:
            return add_up(upstreams(args, upstream), fusion, tensor.dtype)

        return [ops.cast(tensor, dtype or tensor.dtype)] * num_copies, grad

    return copy(tensor)


def add_up(
    tensors: Sequence[Any], fusion: Fusion | None, dtype: Any = "float32"
) -> Any:
    """Returns the sum of tensors of one shape; the arithmetic is in float32."""
    add = _adder(keras.backend.standardize_dtype(dtype))
    if fusion and fusion.fuses(tensors[0]):
        return fusion.call(add, *tensors)
    return add(*tensors)


@functools.cache
def _adder(dtype: str) -> Function:
    def add(*tensors: Any) -> Any:
        first, *others = (ops.cast(tensor, "float32") for tensor in tensors)
        # Not by `ops.add`, which takes a row for a bias.
        return ops.cast(sum(others, start=first), dtype)

    return add


def add_plainly(first: Any, *others: Any) -> Any:
    """Returns the sum of addends, as `Fusion.add` does, not compiled."""
    for other in others:
        other = ops.cast(other, first.dtype)
        # On TensorFlow, `ops.add` adds a vector as a bias, which can be one
        # kernel with a product. It takes a table of no rows for one, too.
        first = ops.add(first, other) if other.ndim == 1 else first + other
    return first


def _read(value: Any) -> Any:
    """Returns the tensor of a variable: TensorFlow's gradients need one."""
    is_variable = isinstance(value, keras.Variable)
    return ops.reshape(value, value.shape) if is_variable else value


def _same(tensor: Any) -> Any:
    return tensor


@functools.cache
def _in_float32(function: Function, num_addends: int) -> Function:
    def call(*inputs: Any) -> Any:
        tensors = [ops.cast(x, "float32") for x in inputs]
        total = add_plainly(*tensors[:num_addends])
        output = function(total, *tensors[num_addends:])
        return ops.cast(output, inputs[0].dtype)

    return call


@functools.cache
def _of_inputs(gradient: Function, num_addends: int) -> Function:
    """Returns `gradient` with arithmetic in float32, results as the inputs."""

    def call(upstream: Any, output: Any, *inputs: Any) -> Any:
        upstream, output, *tensors = (
            ops.cast(x, "float32") for x in (upstream, output, *inputs)
        )
        total = add_plainly(*tensors[:num_addends])
        gradients = gradient(upstream, output, total, *tensors[num_addends:])
        like = (inputs[0], *inputs[num_addends:])
        return [
            ops.cast(x, other.dtype)
            for x, other in zip(gradients, like, strict=True)
        ]

    return call


def _complete(
    gradients: Sequence[Any], inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """Returns the gradients of all inputs, in their shapes and dtypes."""
    return tuple(
        ops.cast(
            _sum_leading(gradient, x)
            if len(gradient.shape) > len(x.shape)
            else gradient,
            x.dtype,
        )
        for gradient, x in zip(gradients, inputs, strict=True)
    )


def _sum_leading(tensor: Any, like: Any) -> Any:
    """Sums over leading axes: `[..., H]` to the shape of `like`, `[H]`.

    By a product, which is faster than a sum, compiled or not.
    """
    shape = ops.shape(like)
    rows = ops.reshape(tensor, (-1, math.prod(shape)))
    ones = ops.ones((1, ops.shape(rows)[0]), tensor.dtype)
    return ops.reshape(ops.matmul(ones, rows), shape)
