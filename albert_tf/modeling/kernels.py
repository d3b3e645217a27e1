"""Elementwise parts of a block as one kernel each, with a gradient of its own.

A back end computes such a part operation by operation, and its gradient from
what each of them has kept: mostly traffic of memory. Within `compiled_by`, the
part is compiled as a whole, and so is its gradient, in closed form, which
takes nothing but output and inputs. The numbers are the same up to rounding; a
compiled part computes in float32 in every precision.

Floor: modeling.
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


_STATE = _State()


@contextlib.contextmanager
def compiled_by(compile_function: Compile | None) -> Iterator[None]:
    """Has the parts that this thread calls in this block compiled.

    Parts of fewer than `SMALLEST_SIZE` values are not compiled.

    Args:
        compile_function: Takes a function and returns its compiled form, as
            `tf.function(..., jit_compile=True)` and `jax.jit` do. None
            compiles nothing.
    """
    before = _STATE.compile
    _STATE.compile = compile_function and functools.cache(compile_function)
    try:
        yield
    finally:
        _STATE.compile = before


def apply(function: Function, gradient: Function, *inputs: Any) -> Any:
    """Calls a function that has a gradient in closed form.

    Args:
        function: Takes tensors and returns one. Its dtype is that of the first
            input.
        gradient: Takes the gradient of the output, the output and the inputs,
            all in float32; returns a list, the gradients of the first inputs.
            One with more axes than its input is summed over the leading ones.
            The other inputs have none.
        *inputs: What `function` is called with.

    Returns:
        The output of `function`.
    """
    compiled = _compiler(inputs[0])
    if compiled is None:
        return function(*inputs)

    @ops.custom_gradient
    def call(*inputs: Any) -> Any:
        output = compiled(_in_float32(function))(*inputs)

        def grad(*args: Any, upstream: Any = None) -> Any:
            [upstream] = upstreams(args, upstream)
            found = compiled(_of_inputs(gradient))(upstream, output, *inputs)
            return _complete(found, inputs)

        return output, grad

    return call(*inputs)


def upstreams(args: Any, upstream: Any) -> list[Any]:
    """Returns the gradients of all outputs of a function, as one list.

    Back ends call the second result of an `ops.custom_gradient` in different
    ways: with one argument for each output, with one list, or by name.
    """
    return keras.tree.flatten(args if upstream is None else upstream)


def add_up(tensors: Sequence[Any]) -> Any:
    """Returns the sum of one or more tensors of one shape, in float32."""
    compiled = _compiler(tensors[0])
    add = compiled(_add_up) if compiled else _add_up
    return add(*tensors)


def _add_up(*tensors: Any) -> Any:
    first, *others = (ops.cast(tensor, "float32") for tensor in tensors)
    # Not by `ops.add`, which takes a row for a bias.
    return sum(others, start=first)


def _compiler(tensor: Any) -> Compile | None:
    """Returns what compiles a part whose first input is `tensor`, if any."""
    size = math.prod(n or ASSUMED_LENGTH for n in tensor.shape)
    return _STATE.compile if size >= SMALLEST_SIZE else None


@functools.cache
def _in_float32(function: Function) -> Function:
    def call(*inputs: Any) -> Any:
        outputs = function(*(ops.cast(x, "float32") for x in inputs))
        return ops.cast(outputs, inputs[0].dtype)

    return call


@functools.cache
def _of_inputs(gradient: Function) -> Function:
    def call(upstream: Any, output: Any, *inputs: Any) -> Any:
        tensors = (upstream, output, *inputs)
        found = gradient(*(ops.cast(x, "float32") for x in tensors))
        return [
            ops.cast(one, x.dtype)
            for one, x in zip(found, inputs, strict=False)
        ]

    return call


def _complete(found: Sequence[Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
    # The sums are not compiled: that of a column is slow within a kernel.
    summed = [
        ops.sum(one, axis=tuple(range(len(one.shape) - len(x.shape))))
        if len(one.shape) > len(x.shape)
        else one
        for one, x in zip(found, inputs, strict=False)
    ]
    return (*summed, *map(ops.zeros_like, inputs[len(summed) :]))
