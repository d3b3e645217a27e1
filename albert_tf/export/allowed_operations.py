"""The operations that an exported graph may contain.

TF Serving's published images know the operations of TensorFlow itself and
those of an old TensorFlow Text. A graph with any other operation does not
load there, so it is not written.

Floor: export.
"""

from collections.abc import Iterator
from typing import Any

# Operations of TensorFlow Text that images with version 2.12 know.
_OF_TENSORFLOW_TEXT = """
    CaseFoldUTF8 FindSourceOffsets NormalizeUTF8 NormalizeUTF8WithOffsetsMap
    SentencepieceOp SentencepieceTokenizeOp
    SentencepieceTokenizeWithOffsetsOp WordpieceTokenizeWithOffsets
"""
# Operations of TensorFlow itself that our graphs consist of; all of them are
# older than the oldest image in use.
_OF_TENSORFLOW = """
    Abs AddV2 All Any ArgMax ArgMin Assert BatchMatMulV2 BiasAdd BitwiseAnd
    BroadcastTo Cast ConcatV2 Const Cumsum Einsum EnsureShape Equal Erf Erfc
    Exp ExpandDims Fill FloorDiv FloorMod GatherNd GatherV2 Greater
    GreaterEqual Identity IdentityN If Less LessEqual Log LogSoftmax
    LogicalAnd LogicalNot LogicalOr LowerBound MatMul Max Maximum Mean Min
    Minimum Mul Neg NoOp NotEqual OnesLike Pack Pad PadV2 PartitionedCall
    Placeholder Pow Prod Range ReadVariableOp RealDiv Relu Relu6 Reshape
    ResourceGather ResourceGatherNd Rsqrt ScatterNd SelectV2 Shape Sigmoid
    Size Slice Softmax Split SplitV Sqrt Square SquaredDifference Squeeze
    StatefulPartitionedCall StatelessIf StatelessWhile StopGradient
    StridedSlice StringJoin StringLength Sub Substr Sum Tanh
    TensorListFromTensor TensorListGetItem TensorListLength
    TensorListReserve TensorListSetItem TensorListStack TensorScatterAdd
    TensorScatterMax TensorScatterMin TensorScatterUpdate Tile TopKV2
    Transpose UnicodeDecode UnicodeEncode Unpack UnsortedSegmentMax
    UnsortedSegmentMin UnsortedSegmentSum UpperBound Where While ZerosLike
"""
ALLOWED = frozenset([*_OF_TENSORFLOW.split(), *_OF_TENSORFLOW_TEXT.split()])


def check(function: Any, name: str) -> None:
    """Checks a traced function and all functions that it calls.

    Args:
        function: A concrete function.
        name: Name of the signature, for the message.

    Raises:
        ValueError: It contains an operation that is not on the list; the
            message names the operation.
    """
    forbidden = sorted({*operations(function)} - ALLOWED)
    if forbidden:
        raise ValueError(
            f"Signature {name!r} contains {', '.join(forbidden)}, which TF "
            "Serving may not know; nothing is written. Use the operations "
            "listed in albert_tf/export/allowed_operations.py."
        )


def operations(function: Any) -> Iterator[str]:
    """Yields the names of the operations of a graph and its functions."""
    graph = function.graph.as_graph_def()
    own = {definition.signature.name for definition in graph.library.function}
    nodes = [graph.node, *(f.node_def for f in graph.library.function)]
    for node in (node for some in nodes for node in some):
        # A call of a function is named like the function.
        if node.op not in own:
            yield node.op
