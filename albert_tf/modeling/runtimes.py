"""Exports a model to the formats of other runtimes: ONNX, LiteRT, OpenVINO.

`BaseModel.export` finds this file by the name of the format.
"""

import sys
import tempfile

import keras

from albert_tf import checks
from albert_tf.modeling.base_model import BaseModel


def export(
    model: BaseModel, filepath: object, format: str, **kwargs: object
) -> None:
    """Exports a model; the arguments are those of `keras.Model.export`.

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
    keras.Model.export(model, filepath, format, **kwargs)
