"""The module that older `.keras` files name for `TokenizerLayer`."""

from albert_tf.serving.tokenizer_layer import TokenizerLayer

__all__ = ["TokenizerLayer"]
