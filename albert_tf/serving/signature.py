"""Signatures: the named functions of an exported model.

Inputs are checked in the graph, because the loader in C++ does not check them.
TF Serving's published images know the operations of their own TensorFlow and
some of TensorFlow Text. A graph with any other operation does not load there,
so it is not written.
"""

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

Tensors = dict[str, tf.Tensor]

DEFAULT = "serving_default"
TOKENS = "tokens"
ID_INPUTS = ("input_ids", "input_mask", "segment_ids")
WARMUP_BATCHES = (1, 8)
_WARMUP_LENGTH = 32
# TF Serving is built with some operations of TensorFlow Text. It lacks, for
# instance, `RoundRobinTrim`, `FastBertNormalize` and
# `FastSentencepieceTokenize`; and Python.
_TEXT_OPERATIONS = {
    *("SentencepieceOp", "SentencepieceTokenizeWithOffsetsOp"),
    *("RegexSplitWithOffsets", "WordpieceTokenizeWithOffsets"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Signature:
    """A function, its name, and a row of a typical request, to warm it up.

    The row has an array of each input: strings, of which all rows have as many;
    or numbers, whose last axis may have any size.
    """

    name: str
    compute: Callable[..., Tensors]
    row: Mapping[str, np.ndarray]

    @property
    def takes_text(self) -> bool:
        """Whether an input is of strings."""
        return any(values.dtype == object for values in self.row.values())

    @property
    def inputs(self) -> dict[str, tf.TensorSpec]:
        """Specifies the inputs, `[B, ...]`."""
        specs = {}
        for name, values in self.row.items():
            shape: list[int | None] = [None, *values.shape]
            if values.dtype != object:
                shape[-1] = None
            specs[name] = tf.TensorSpec(shape, values.dtype, name=name)
        return specs

    @property
    def warmup(self) -> list[dict[str, np.ndarray]]:
        """Typical requests, which repeat the row."""
        return [
            {n: np.stack([values] * batch) for n, values in self.row.items()}
            for batch in WARMUP_BATCHES
        ]

    @functools.cached_property
    def function(self) -> Any:
        """The traced function; inputs of other shapes are errors."""
        inputs = self.inputs

        def checked(**values: tf.Tensor) -> Tensors:
            return self.compute(
                **{
                    name: tf.ensure_shape(value, inputs[name].shape)
                    for name, value in values.items()
                }
            )

        return tf.function(checked, autograph=False).get_concrete_function(
            **inputs
        )


def text_and_token_signatures(
    from_text: Callable[..., Tensors],
    from_ids: Callable[..., Tensors],
    *,
    example: Mapping[str, str | Sequence[str]],
    inner_shape: tuple[int, ...] = (),
) -> list[Signature]:
    """Returns the two signatures that every task has.

    `from_text`, a function of strings, becomes `serving_default`, and
    `from_ids`, of `ID_INPUTS`, `tokens`. `example` has a typical value of each
    string input: a text makes it `[B]`, a list of C texts `[B, C]`.
    `inner_shape` are the sizes of the ids between batch and sequence.
    """
    texts = {name: np.array(text, object) for name, text in example.items()}
    return [
        Signature(name=DEFAULT, compute=from_text, row=texts),
        Signature(name=TOKENS, compute=from_ids, row=id_row(*inner_shape)),
    ]


def check_operations(folder: str) -> None:
    """Checks that a SavedModel has only operations that TF Serving knows."""
    path = os.path.join(folder, "saved_model.pb")
    with open(path, "rb") as file:
        model = saved_model_pb2.SavedModel.FromString(file.read())
    graph = model.meta_graphs[0].graph_def
    functions = graph.library.function
    nodes = itertools.chain(graph.node, *(f.node_def for f in functions))
    # A call of a function is named like the function.
    known = _TEXT_OPERATIONS.union(f.signature.name for f in functions)
    known |= {name for name in dir(tf.raw_ops) if "PyFunc" not in name}
    forbidden = sorted({node.op for node in nodes} - known)
    if forbidden:
        raise ValueError(
            f"The graph contains {', '.join(forbidden)}, which TF Serving may "
            "not know (see albert_tf/serving/signature.py); nothing is written."
        )


def id_row(*inner_shape: int) -> dict[str, np.ndarray]:
    """Returns a row of `ID_INPUTS`, int32 `[..., S]`."""
    ones = np.ones((*inner_shape, _WARMUP_LENGTH), np.int32)
    return {**dict.fromkeys(ID_INPUTS, ones), "segment_ids": ones * 0}


def same_batch(**texts: tf.Tensor) -> list[tf.Tensor]:
    """Returns inputs `[B, ...]`; the graph fails unless all have one B."""
    sizes = [tf.shape(values)[0] for values in texts.values()]
    names = " and ".join(texts)
    message = f"{names} must have the same number of strings. Received:"
    is_same = tf.reduce_all(tf.equal(sizes, sizes[0]))
    with tf.control_dependencies([tf.Assert(is_same, [message, *sizes])]):
        return [tf.identity(values) for values in texts.values()]
