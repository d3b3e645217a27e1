"""Exports a model to the formats of other runtimes: ONNX, LiteRT, OpenVINO.

`BaseModel.export` finds this file by the name of the format.
"""

import sys
import tempfile
from typing import Any
from unittest import mock

import keras
import numpy as np

from albert_tf import checks


def export(
    model: keras.Model, filepath: object, format: str, **kwargs: object
) -> None:
    """Exports a model; the arguments are as of `keras.Model.export`.

    Raises ValueError for a precision that the format does not have.
    """
    allowed = {"float32", "int8_from_float32" if format == "onnx" else ""}
    policies = {layer.dtype_policy.name for layer in model._flatten_layers()}
    # OpenVINO computes other numbers in int8; the rest does not load.
    if others := policies - allowed:
        raise ValueError(
            f"A model exported as {format} must be float32 (ONNX: or int8). "
            f"Received: {checks.listed(sorted(others))}."
        )
    if format == "openvino" and model.config.attention_window:
        raise ValueError(
            "OpenVINO computes other numbers for a model with an "
            "`attention_window`. Pass another format."
        )
    if format == "openvino" and sys.version_info >= (3, 13):
        # OpenVINO 2026.4 cannot convert functions there (`exec`).
        import openvino

        with tempfile.TemporaryDirectory() as folder:
            keras.Model.export(model, folder, **kwargs)
            converted = openvino.convert_model(folder)
            openvino.save_model(converted, filepath, compress_to_fp16=False)
        return
    if format == "onnx" and keras.backend.backend() == "tensorflow":
        from tf2onnx import handler, tfonnx  # noqa: F401  It adds conversions.

        # ONNX has Erf since version 9; functions stand with their keywords.
        conversions = handler.tf_op.get_opsets()[""][9]
        with mock.patch.dict(conversions, Erfc=(_convert_erfc, {})):
            keras.Model.export(model, filepath, format, **kwargs)
        return
    keras.Model.export(model, filepath, format, **kwargs)


def _convert_erfc(graph: Any, node: Any, **_: object) -> None:
    """Converts Erfc, which ONNX does not have, to 1 - Erf."""
    [shape], [dtype] = node.output_shapes, node.output_dtypes
    graph.remove_node(node.name)
    erf = graph.make_node("Erf", node.input, shapes=[shape], dtypes=[dtype])
    one = graph.make_const(f"{node.name}_one", np.float32(1))
    graph.make_node(
        "Sub",
        [one.output[0], erf.output[0]],
        outputs=node.output,
        shapes=[shape],
        dtypes=[dtype],
    )
