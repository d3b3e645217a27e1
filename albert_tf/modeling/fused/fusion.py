"""Compiles elementwise operations as one kernel, and their gradient as one.

A back end computes such operations one by one, and the gradient from what each
of them has kept: mostly memory traffic. A compiled gradient in closed form
takes nothing but the inputs. The numbers are the same up to rounding;
what is compiled computes in float32 in every precision.
"""

import functools
import math
from collections.abc import Callable, Sequence

import keras
from keras import ops

from albert_tf import registry
from albert_tf.modeling import Tensor, operations
from albert_tf.modeling.operations import Function

# Number of values from which on a kernel saves more than its start costs.
SMALLEST_SIZE = 2**16
# Taken for an axis whose length is not known. A kernel is compiled for each
# length that comes, which does not pay for small layers.
ASSUMED_LENGTH = 32


class Fusion:
    """Compiles operations that are large enough.

    Args:
        compile_function: Takes a function and returns its compiled form for a
            CPU, as `tf.function(..., jit_compile=True)` and `jax.jit` do. (On
            other devices, sums of rows may be rounded.) None compiles nothing.
    """

    def __init__(
        self, compile_function: Callable[[Function], Function] | None = None
    ) -> None:
        self._compiles = compile_function is not None
        self._compiled = functools.cache(compile_function or (lambda f: f))

    def fuses(self, tensor: Tensor) -> bool:
        """Returns whether operations on a tensor of this size are compiled."""
        if not self._compiles:
            return False
        size = math.prod([n or ASSUMED_LENGTH for n in tensor.shape])
        return size >= SMALLEST_SIZE

    def call(self, function: Function, *inputs: Tensor) -> Tensor:
        """Calls a function, compiled, whose gradient nobody asks for."""
        return self._compiled(function)(*map(_read, inputs))

    def call_on_sum(
        self,
        function: Function,
        gradient: Function,
        addends: Sequence[Tensor],
        *others: Tensor,
    ) -> Tensor:
        """Calls a function of a sum that has a gradient in closed form.

        Args:
            function: Takes the sum and the other inputs, and returns a tensor
                of the shape of the sum.
            gradient: Takes the sum, the other inputs and the gradient of the
                output, all in float32; returns a list, the gradients of the
                sum and of the other inputs. One with more axes than its input
                is summed over the leading ones.
            addends: What to add up. The first has shape and dtype of the
                output; the others have its shape or that of its last axes, as
                a bias has.
            *others: What `function` is called with besides.

        Returns:
            The output of `function`.
        """
        num_addends = len(addends)

        @custom_gradient
        def call(*inputs: Tensor) -> Tensor:
            [output] = self.call(_on_sum(function, num_addends), *inputs)

            def grad(upstream: Tensor) -> Tensor:
                of_sum, *of_others = self.call(
                    _on_sum(gradient, num_addends), *inputs, upstream
                )
                return _complete([of_sum] * num_addends + of_others, inputs)

            return output, grad

        return call(*map(_read, (*addends, *others)))

    def add(self, *addends: Tensor) -> Tensor:
        """Returns the sum of `addends`, as `call_on_sum` takes them."""

        @custom_gradient
        def call(*inputs: Tensor) -> Tensor:
            def grad(upstream: Tensor) -> Tensor:
                return _complete([upstream] * len(inputs), inputs)

            add = _on_sum(keras.activations.linear, len(inputs))
            [output] = self.call(add, *inputs)
            return output, grad

        return call(*map(_read, addends))


def custom_gradient(function: Function) -> Function:
    """Decorates a function that returns outputs, and a function for gradients.

    That takes the gradient of each output as an argument. Back ends call it in
    different ways: with one argument for each output, with one list, or by
    name.
    """

    def call(*inputs: Tensor) -> Tensor:
        outputs, gradient = function(*inputs)

        def grad(*args: Tensor, upstream: Tensor = None) -> Tensor:
            upstreams = args if upstream is None else upstream
            return gradient(*keras.tree.flatten(upstreams))

        return outputs, grad

    def decorated(*inputs: Tensor) -> Tensor:
        outputs = ops.custom_gradient(call)(*inputs)
        if keras.backend.backend() == "tensorflow":
            _forgetting()(keras.tree.flatten(outputs)[0])
        return outputs

    return decorated


@functools.cache  # AutoGraph does not convert what is cached.
def _forgetting() -> Function:
    function: Function = registry.load(registry.COMPUTATION["gradients"])
    return function


def row_sums(tensor: Tensor) -> Tensor:
    """Returns the sum of each row of a float32 tensor, `[..., 1]`.

    It is a product: on a CPU, a compiled one uses all cores, while a compiled
    sum over the last axis uses one.
    """
    ones = ops.ones((ops.shape(tensor)[-1], 1), "float32")
    return ops.matmul(tensor, ones)


def sum_of_all(tensor: Tensor) -> Tensor:
    """Returns the sum of all values of a float32 tensor, for a kernel."""
    # A product adds up a vector value by value, which loses digits.
    return ops.sum(row_sums(tensor) if len(tensor.shape) > 1 else tensor)


def copy_for_gradients(
    tensor: Tensor, num_copies: int, fusion: Fusion, dtype: object = None
) -> list[Tensor]:
    """Returns copies of a tensor, in its dtype or in another one.

    The gradients of all of them are added in one kernel, in float32, unless
    its own dtype is asked for.
    """
    if dtype == tensor.dtype or (dtype is None and not fusion.fuses(tensor)):
        return [tensor] * num_copies

    @custom_gradient
    def copy(tensor: Tensor) -> Tensor:
        def grad(*upstreams: Tensor) -> Tensor:
            return add_up(upstreams, fusion, tensor.dtype)

        return [ops.cast(tensor, dtype or tensor.dtype)] * num_copies, grad

    copies: list[Tensor] = copy(tensor)
    return copies


def add_up(
    tensors: Sequence[Tensor], fusion: Fusion, dtype: object = "float32"
) -> Tensor:
    """Returns the sum of tensors of one shape; the arithmetic is in float32."""
    add = _adder(keras.backend.standardize_dtype(dtype))
    if fusion.fuses(tensors[0]):
        return fusion.call(add, *tensors)
    return add(*tensors)


@functools.cache
def _adder(dtype: str) -> Function:
    def add(*tensors: Tensor) -> Tensor:
        first, *others = (ops.cast(tensor, "float32") for tensor in tensors)
        # Not by `ops.add`, which takes a row for a bias.
        return ops.cast(sum(others, start=first), dtype)

    return add


def _read(value: Tensor) -> Tensor:
    """Returns the tensor of a variable: TensorFlow's gradients need one."""
    is_variable = isinstance(value, keras.Variable)
    return ops.reshape(value, value.shape) if is_variable else value


@functools.cache
def _on_sum(function: Function, num_addends: int) -> Function:
    """Returns a function of addends and other inputs, as one of their sum.

    The arithmetic is in float32. It returns a list; the first result has the
    dtype of the first addend, the next ones have those of the other inputs.
    """

    def call(*inputs: Tensor) -> list[Tensor]:
        tensors = [ops.cast(x, "float32") for x in inputs]
        total = operations.add(*tensors[:num_addends])
        results = function(total, *tensors[num_addends:])
        like = (inputs[0], *inputs[num_addends:])
        pairs = zip(keras.tree.flatten(results), like, strict=False)
        return [ops.cast(result, other.dtype) for result, other in pairs]

    return call


def _complete(
    gradients: Sequence[Tensor], inputs: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Returns the gradients of all inputs, in their shapes and dtypes."""
    complete = []
    for gradient, x in zip(gradients, inputs, strict=True):
        if len(gradient.shape) > len(x.shape):
            # Summed by a product, which is faster, compiled or not.
            shape = ops.shape(x)
            rows = ops.reshape(gradient, (-1, math.prod(shape)))  # [..., H]
            ones = ops.ones((1, ops.shape(rows)[0]), gradient.dtype)
            gradient = ops.reshape(ops.matmul(ones, rows), shape)
        complete.append(ops.cast(gradient, x.dtype))
    return tuple(complete)
