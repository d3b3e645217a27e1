"""The operations that an exported graph may contain.

TF Serving's published images know the operations of TensorFlow itself and
those of an old TensorFlow Text. A graph with any other operation does not
load there, so it is not written.

Floor: export.
"""

import itertools
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
    """Checks a concrete function and all functions that it calls.

    Raises:
        ValueError: It contains an operation that is not on the list; the
            message names the signature, `name`, and the operation.
    """
    graph = function.graph.as_graph_def()
    nodes = [graph.node, *(f.node_def for f in graph.library.function)]
    found = {node.op for node in itertools.chain(*nodes)}
    # A call of a function is named like the function.
    own = {one.signature.name for one in graph.library.function}
    forbidden = sorted(found - own - ALLOWED)
    if forbidden:
        raise ValueError(
            f"Signature {name!r} contains {', '.join(forbidden)}, which TF "
            "Serving may not know; nothing is written. Use the operations "
            "listed in albert_tf/export/allowed_operations.py."
        )
