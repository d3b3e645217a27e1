"""Operations that are compiled whatever their size."""

import functools

import tensorflow as tf

from albert_tf.modeling import fused

compile_whole = functools.partial(
    tf.function, jit_compile=True, autograph=False
)


class FusesAll(fused.Kernels):
    """`Kernels` that compile tiny operations, too."""

    def __init__(self, compile_function=compile_whole, **kwargs):
        super().__init__(compile_function, **kwargs)

    def fuses(self, tensor):
        return True
