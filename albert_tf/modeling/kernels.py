"""Elementwise parts of a training step as one kernel each.

A back end computes such a part operation by operation, and its gradient from
what each of them has kept: mostly traffic of memory. Within `compiled_by`, the
part is compiled as a whole, and so is its gradient, in closed form, which
takes nothing but output and inputs. The numbers are the same up to rounding; a
compiled part computes in float32 in every precision. Such parts are those of a
block, the cross-entropy, and the optimizer's update of a weight.
"""

import contextlib
import functools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
from keras import ops

# Number of values from which on a kernel saves more than its start costs.
SMALLEST_SIZE = 2**16
# Taken for an axis whose length is not known. A kernel is compiled for each
# length that comes, which does not pay for small layers.
ASSUMED_LENGTH = 32

Function = Callable[..., Any]
Compile = Callable[[Function], Function]


class _State(threading.local):
    compile: Compile | None = None
    softmax_dtypes: Sequence[str] = ()


_STATE = _State()


@contextlib.contextmanager
def compiled_by(
    compile_function: Compile | None, softmax_dtypes: Sequence[str] = ()
) -> Iterator[None]:
    """Has the parts that this thread calls in this block compiled.

    Parts of fewer than `SMALLEST_SIZE` values are not compiled.

    Args:
        compile_function: Takes a function and returns its compiled form for a
            CPU, as `tf.function(..., jit_compile=True)` and `jax.jit` do. None
            compiles nothing. (On other devices, `row_sums` may be rounded.)
        softmax_dtypes: Those in which `ops.softmax` is used, not compiled:
            none, or one for which `has_float32_softmax` holds.
    """
    before = _STATE.compile, _STATE.softmax_dtypes
    _STATE.compile = compile_function and functools.cache(compile_function)
    _STATE.softmax_dtypes = softmax_dtypes
    try:
        yield
    finally:
        _STATE.compile, _STATE.softmax_dtypes = before


def has_softmax(scores: Any) -> bool:
    """Returns whether `scores` go to `ops.softmax`, see `compiled_by`."""
    dtype = keras.backend.standardize_dtype(scores.dtype)
    return dtype in _STATE.softmax_dtypes


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


def apply(
    function: Function,
    gradient: Function,
    addends: Sequence[Any],
    *others: Any,
) -> Any:
    """Calls a function of a sum that has a gradient in closed form.

    Args:
        function: Takes the sum and the other inputs, and returns a tensor of
            the shape of the sum.
        gradient: Takes the gradient of the output, the output, the sum and the
            other inputs, all in float32; returns a list, the gradients of the
            sum and of the other inputs. One with more axes than its input is
            summed over the leading ones.
        addends: What to add up. The first has shape and dtype of the output;
            the others have its shape or that of its last axes, as a bias has.
        *others: What `function` is called with besides.

    Returns:
        The output of `function`.
    """
    compiled = _compiler(addends[0])
    if compiled is None:
        return function(_sum(*addends), *others)
    num_addends = len(addends)

    @ops.custom_gradient
    def call(*inputs: Any) -> Any:
        output = compiled(_in_float32(function, num_addends))(*inputs)

        def grad(*args: Any, upstream: Any = None) -> Any:
            [upstream] = upstreams(args, upstream)
            of_sum, *found = compiled(_of_inputs(gradient, num_addends))(
                upstream, output, *inputs
            )
            return _complete([of_sum] * num_addends + found, inputs)

        return output, grad

    return call(*map(_read, (*addends, *others)))


def of_sum(function: Function) -> Function:
    """Marks a function that takes any number of addends, not only their sum.

    A linear layer with such an activation leaves its bias to it.
    """
    function.is_of_sum = True  # type: ignore[attr-defined]
    return function


def is_of_sum(function: Function) -> bool:
    """Returns whether a function is marked by `of_sum`."""
    return getattr(function, "is_of_sum", False)


def add(*addends: Any) -> Any:
    """Returns the sum of `addends`, as `apply` takes them."""
    compiled = _compiler(addends[0])
    if compiled is None:
        return _sum(*addends)

    @ops.custom_gradient
    def call(*inputs: Any) -> Any:
        def grad(*args: Any, upstream: Any = None) -> Any:
            return _complete(upstreams(args, upstream) * len(inputs), inputs)

        return compiled(_in_float32(_same, len(inputs)))(*inputs), grad

    return call(*map(_read, addends))


def is_compiled(tensor: Any) -> bool:
    """Returns whether a part whose first addend is `tensor` is compiled."""
    return _compiler(tensor) is not None


def upstreams(args: Any, upstream: Any) -> list[Any]:
    """Returns the gradients of all outputs of a function, as one list.

    Back ends call the second result of an `ops.custom_gradient` in different
    ways: with one argument for each output, with one list, or by name.
    """
    return keras.tree.flatten(args if upstream is None else upstream)


def call(function: Function, *inputs: Any) -> Any:
    """Calls a function, compiled, whose gradient nobody asks for."""
    compiled = _compiler(inputs[0])
    return (compiled(function) if compiled else function)(*map(_read, inputs))


def row_means(tensor: Any) -> Any:
    """Returns the mean of each row of a float32 tensor, `[..., 1]`."""
    if not is_compiled(tensor):
        return ops.mean(tensor, axis=-1, keepdims=True)
    return row_sums(tensor) / tensor.shape[-1]


def sum_of_all(tensor: Any) -> Any:
    """Returns the sum of all values of a float32 tensor, a scalar."""
    # A product adds up a vector value by value, which loses digits.
    by_rows = is_compiled(tensor) and len(tensor.shape) > 1
    return ops.sum(row_sums(tensor) if by_rows else tensor)


def row_sums(tensor: Any) -> Any:
    """Returns the sum of each row of a float32 tensor, `[..., 1]`.

    It is a product: on a CPU, a compiled one uses all cores, while a compiled
    sum over the last axis uses one.
    """
    ones = ops.ones((ops.shape(tensor)[-1], 1), "float32")
    return ops.matmul(tensor, ones)


def copies(tensor: Any, number: int, dtype: Any = None) -> list[Any]:
    """Returns a tensor a number of times, in its dtype or in another one.

    The gradients of all of them are added in one kernel, in float32.
    """
    if dtype in (None, tensor.dtype) and not is_compiled(tensor):
        return [tensor] * number

    @ops.custom_gradient
    def copy(tensor: Any) -> Any:
        def grad(*args: Any, upstream: Any = None) -> Any:
            return add_up(upstreams(args, upstream), tensor.dtype)

        return [ops.cast(tensor, dtype or tensor.dtype)] * number, grad

    return copy(tensor)


def add_up(tensors: Sequence[Any], dtype: Any = "float32") -> Any:
    """Returns the sum of tensors of one shape; the arithmetic is in float32."""
    return call(_adder(keras.backend.standardize_dtype(dtype)), *tensors)


@functools.cache
def _adder(dtype: str) -> Function:
    def add(*tensors: Any) -> Any:
        first, *others = (ops.cast(tensor, "float32") for tensor in tensors)
        # Not by `ops.add`, which takes a row for a bias.
        return ops.cast(sum(others, start=first), dtype)

    return add


def _compiler(tensor: Any) -> Compile | None:
    """Returns what compiles a part whose first input is `tensor`, if any."""
    size = math.prod(n or ASSUMED_LENGTH for n in tensor.shape)
    return _STATE.compile if size >= SMALLEST_SIZE else None


def _read(value: Any) -> Any:
    """Returns the tensor of a variable: TensorFlow's gradients need one."""
    is_variable = isinstance(value, keras.Variable)
    return ops.reshape(value, value.shape) if is_variable else value


def _same(tensor: Any) -> Any:
    return tensor


def _sum(first: Any, *others: Any) -> Any:
    """Adds up in the dtype of the first."""
    for other in others:
        other = ops.cast(other, first.dtype)
        # On TensorFlow, `ops.add` adds a vector as a bias, which can be one
        # kernel with a product. It takes a table of no rows for one, too.
        first = ops.add(first, other) if other.ndim == 1 else first + other
    return first


@functools.cache
def _in_float32(function: Function, num_addends: int) -> Function:
    def call(*inputs: Any) -> Any:
        tensors = [ops.cast(x, "float32") for x in inputs]
        total = _sum(*tensors[:num_addends])
        output = function(total, *tensors[num_addends:])
        return ops.cast(output, inputs[0].dtype)

    return call


@functools.cache
def _of_inputs(gradient: Function, num_addends: int) -> Function:
    """Returns the gradients of the sum and of other inputs, in their dtypes."""

    def call(upstream: Any, output: Any, *inputs: Any) -> Any:
        upstream, output, *tensors = (
            ops.cast(x, "float32") for x in (upstream, output, *inputs)
        )
        total = _sum(*tensors[:num_addends])
        found = gradient(upstream, output, total, *tensors[num_addends:])
        like = (inputs[0], *inputs[num_addends:])
        return [
            ops.cast(one, x.dtype) for one, x in zip(found, like, strict=True)
        ]

    return call


def _complete(found: Sequence[Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the gradients of all inputs, in their shapes and dtypes."""
    return tuple(
        ops.cast(
            _sum_leading(one, x) if len(one.shape) > len(x.shape) else one,
            x.dtype,
        )
        for one, x in zip(found, inputs, strict=True)
    )


def _sum_leading(tensor: Any, like: Any) -> Any:
    """Sums over leading axes: `[..., H]` to the shape of `like`, `[H]`.

    By a product, which is faster than a sum, compiled or not.
    """
    shape = ops.shape(like)
    rows = ops.reshape(tensor, (-1, math.prod(shape)))
    ones = ops.ones((1, ops.shape(rows)[0]), tensor.dtype)
    return ops.reshape(ops.matmul(ones, rows), shape)
