"""Which operations a served graph may have.

TF Serving's published images know the operations of TensorFlow itself and
those of an old TensorFlow Text; a graph with another one does not load there.
So it is not written.

Floor: export.
"""

from collections.abc import Iterator
from typing import Any

# Of TensorFlow Text, those that images with version 2.12 know.
_OF_TENSORFLOW_TEXT = frozenset(
    [
        "CaseFoldUTF8",
        "FindSourceOffsets",
        "NormalizeUTF8",
        "NormalizeUTF8WithOffsetsMap",
        "SentencepieceOp",
        "SentencepieceTokenizeOp",
        "SentencepieceTokenizeWithOffsetsOp",
        "WordpieceTokenizeWithOffsets",
    ]
)
# Of TensorFlow itself: what the graphs made here consist of, all of it older
# than the oldest image in use.
_OF_TENSORFLOW = frozenset(
    [
        "Abs",
        "AddV2",
        "All",
        "Any",
        "ArgMax",
        "ArgMin",
        "Assert",
        "BatchMatMulV2",
        "BiasAdd",
        "BitwiseAnd",
        "BroadcastTo",
        "Cast",
        "ConcatV2",
        "Const",
        "Cumsum",
        "Einsum",
        "EnsureShape",
        "Equal",
        "Erf",
        "Erfc",
        "Exp",
        "ExpandDims",
        "Fill",
        "FloorDiv",
        "FloorMod",
        "GatherNd",
        "GatherV2",
        "Greater",
        "GreaterEqual",
        "Identity",
        "IdentityN",
        "If",
        "Less",
        "LessEqual",
        "Log",
        "LogSoftmax",
        "LogicalAnd",
        "LogicalNot",
        "LogicalOr",
        "LowerBound",
        "MatMul",
        "Max",
        "Maximum",
        "Mean",
        "Min",
        "Minimum",
        "Mul",
        "Neg",
        "NoOp",
        "NotEqual",
        "OnesLike",
        "Pack",
        "Pad",
        "PadV2",
        "PartitionedCall",
        "Placeholder",
        "Pow",
        "Prod",
        "Range",
        "ReadVariableOp",
        "RealDiv",
        "Relu",
        "Relu6",
        "Reshape",
        "ResourceGather",
        "ResourceGatherNd",
        "Rsqrt",
        "ScatterNd",
        "SelectV2",
        "Shape",
        "Sigmoid",
        "Size",
        "Slice",
        "Softmax",
        "Split",
        "SplitV",
        "Sqrt",
        "Square",
        "SquaredDifference",
        "Squeeze",
        "StatefulPartitionedCall",
        "StatelessIf",
        "StatelessWhile",
        "StopGradient",
        "StridedSlice",
        "StringJoin",
        "StringLength",
        "Sub",
        "Substr",
        "Sum",
        "Tanh",
        "TensorListFromTensor",
        "TensorListGetItem",
        "TensorListLength",
        "TensorListReserve",
        "TensorListSetItem",
        "TensorListStack",
        "TensorScatterAdd",
        "TensorScatterMax",
        "TensorScatterMin",
        "TensorScatterUpdate",
        "Tile",
        "TopKV2",
        "Transpose",
        "UnicodeDecode",
        "UnicodeEncode",
        "Unpack",
        "UnsortedSegmentMax",
        "UnsortedSegmentMin",
        "UnsortedSegmentSum",
        "UpperBound",
        "Where",
        "While",
        "ZerosLike",
    ]
)
ALLOWED = _OF_TENSORFLOW | _OF_TENSORFLOW_TEXT


def check(function: Any, name: str) -> None:
    """Checks a traced function, and all that it calls.

    Args:
        function: A concrete function.
        name: Of the signature, for the message.

    Raises:
        ValueError: It has an operation that is not on the list; the message
            names it.
    """
    forbidden = sorted({*operations(function)} - ALLOWED)
    if forbidden:
        raise ValueError(
            f"Signature {name!r} has {', '.join(forbidden)}, which TF Serving "
            "may not know. Use operations of albert_tf/export/"
            "allowed_operations.py; nothing is written."
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
