"""Runs a model on the engine of Keras: TensorFlow, JAX or PyTorch.

Batches and outputs are NumPy, so that the caller need not know the engine.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from albert_tf import registry
from albert_tf.data.record_columns import GPU_BUCKET_WIDTH, Padding

# Lengths of batches are multiples of it where each shape is compiled.
COMPILED_BUCKET_WIDTH = 32
Arrays = Mapping[str, np.ndarray]


def padding(max_seq_length: int) -> Padding:
    """Returns how batches of records are padded."""
    backend, has_gpu = keras.backend.backend(), False
    if backend == "jax":
        # It compiles every shape anew.
        return Padding(
            max_seq_length=max_seq_length,
            bucket_width=COMPILED_BUCKET_WIDTH,
            is_compiled=True,
        )
    if backend == "torch":
        import torch

        has_gpu = torch.cuda.is_available()
    elif backend == "tensorflow":
        has_gpu = bool(keras.distribution.list_devices("gpu"))
    return Padding(
        max_seq_length=max_seq_length,
        bucket_width=GPU_BUCKET_WIDTH if has_gpu else None,
    )


def compiled(
    function: Callable[..., Any], model: Any, batch: Arrays
) -> Callable[[Arrays], dict[str, np.ndarray]]:
    """Compiles a function of batches that calls a model.

    It has no gradient, and takes batches of any size. A model that is not of
    Keras, such as an export, computes NumPy arrays itself.
    """
    run: Callable[[Arrays], Any] = function
    backend = keras.backend.backend()
    if not isinstance(model, keras.Model):
        pass
    elif backend == "tensorflow":
        import tensorflow as tf

        specs = {
            name: tf.TensorSpec([None] * array.ndim, array.dtype)
            for name, array in batch.items()
        }
        trace = functools.partial(tf.function, autograph=False)
        kernels = registry.load(registry.COMPUTATION["kernels"])
        with kernels.casting_once(model, trace):
            run = trace(function).get_concrete_function(specs)
    elif backend == "jax":
        run = _jitted(function, model.variables)
    else:
        import torch

        run = torch.inference_mode()(function)
    return lambda batch: {
        name: ops.convert_to_numpy(values)
        for name, values in run(batch).items()
    }


def _jitted(
    function: Callable[..., Any], variables: list[keras.Variable]
) -> Callable[[Arrays], Any]:
    """Returns a function for JAX, to which weights are an argument."""
    import jax

    @jax.jit
    def stateless(values: list[Any], batch: Arrays) -> Any:
        with keras.StatelessScope(zip(variables, values, strict=True)):
            return function(batch)

    return lambda batch: stateless([v.value for v in variables], batch)
