"""Signatures: the named functions of an exported model.

The graph checks its inputs, because the loader in C++ does not. TF Serving's
published images have the operations of their TensorFlow and some operations of
TensorFlow Text. They cannot load a graph with any other operation, so an export
does not write one.
"""

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

Tensors = dict[str, tf.Tensor]

DEFAULT = "serving_default"
TOKENS = "tokens"
ID_INPUTS = ("input_ids", "input_mask", "segment_ids")
WARMUP_BATCHES = (1, 8)
_WARMUP_LENGTH = 32
# The operations of TensorFlow Text that TF Serving is built with and exports
# use. It lacks, for instance, `RoundRobinTrim`, `FastBertNormalize` and
# `FastSentencepieceTokenize`.
_TEXT_OPERATIONS = {
    *("SentencepieceOp", "SentencepieceTokenizeWithOffsetsOp"),
    *("RegexSplitWithOffsets", "WordpieceTokenizeWithOffsets"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Signature:
    """A served function, its name, and one row of a typical request.

    The row has an array for each input and warms the server up. An array of
    strings has the same shape in all requests; the last axis of an array of
    numbers may have any size.
    """

    name: str
    compute: Callable[..., Tensors]
    row: Mapping[str, np.ndarray]

    @property
    def takes_text(self) -> bool:
        """Whether an input consists of strings."""
        return any(array.dtype == object for array in self.row.values())

    @property
    def inputs(self) -> dict[str, tf.TensorSpec]:
        """Shapes `[B, ...]` and dtypes of the inputs."""
        specs = {}
        for name, array in self.row.items():
            shape: list[int | None] = [None, *array.shape]
            if array.dtype != object:
                shape[-1] = None
            specs[name] = tf.TensorSpec(shape, array.dtype, name=name)
        return specs

    @property
    def warmup(self) -> list[dict[str, np.ndarray]]:
        """Typical requests, which repeat the row."""
        return [
            {
                name: np.stack([array] * batch)
                for name, array in self.row.items()
            }
            for batch in WARMUP_BATCHES
        ]

    @functools.cached_property
    def function(self) -> tf.types.experimental.ConcreteFunction:
        """The traced function; it refuses inputs of other shapes."""
        inputs = self.inputs

        def checked(**tensors: tf.Tensor) -> Tensors:
            return self.compute(
                **{
                    name: tf.ensure_shape(tensor, inputs[name].shape)
                    for name, tensor in tensors.items()
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

    Args:
        from_text: Function of strings, for `serving_default`.
        from_ids: Function of `ID_INPUTS`, for `tokens`.
        example: A typical value of each input of `from_text`: a text if the
            input is `[B]`, a list of C texts if it is `[B, C]`.
        inner_shape: Sizes of the ids between the axes of batch and sequence.
    """
    texts = {name: np.array(text, object) for name, text in example.items()}
    return [
        Signature(name=DEFAULT, compute=from_text, row=texts),
        Signature(name=TOKENS, compute=from_ids, row=id_row(*inner_shape)),
    ]


def check_operations(folder: str) -> None:
    """Checks that TF Serving has all operations of a SavedModel."""
    path = os.path.join(folder, "saved_model.pb")
    with open(path, "rb") as file:
        model = saved_model_pb2.SavedModel.FromString(file.read())
    graph = model.meta_graphs[0].graph_def
    functions = graph.library.function
    nodes = itertools.chain(graph.node, *(f.node_def for f in functions))
    # A node that calls a function has its name as operation.
    allowed = _TEXT_OPERATIONS.union(f.signature.name for f in functions)
    allowed |= {name for name in dir(tf.raw_ops) if "PyFunc" not in name}
    forbidden = sorted({node.op for node in nodes} - allowed)
    if forbidden:
        raise ValueError(
            f"The graph contains {', '.join(forbidden)}, which TF Serving may "
            "not have (see albert_tf/serving/signature.py). Nothing is written."
        )


def id_row(*inner_shape: int) -> dict[str, np.ndarray]:
    """Returns a row of `ID_INPUTS`, int32 `[..., S]`."""
    ones = np.ones((*inner_shape, _WARMUP_LENGTH), np.int32)
    return {**dict.fromkeys(ID_INPUTS, ones), "segment_ids": ones * 0}


def same_batch(**texts: tf.Tensor) -> list[tf.Tensor]:
    """Checks in the graph that inputs `[B, ...]` have the same B."""
    sizes = [tf.shape(tensor)[0] for tensor in texts.values()]
    names = " and ".join(texts)
    message = f"{names} must have the same number of strings. Received:"
    is_same = tf.reduce_all(tf.equal(sizes, sizes[0]))
    with tf.control_dependencies([tf.Assert(is_same, [message, *sizes])]):
        return [tf.identity(tensor) for tensor in texts.values()]
