"""Exports for LiteRT and ONNX, which only `load_predictor` runs."""

import dataclasses
import os

from albert_tf.checkpoints import tf1
from albert_tf.checkpoints.checkpoint import Arrays, Checkpoint, LazyArrays
from albert_tf.config import AlbertConfig

LITERT, ONNX = "litert", "onnx"
# The models in the folder of an export; the first that exists is run.
EXPORTED_MODELS = {
    LITERT: ("model.tflite",),
    # As transformers.js calls them.
    ONNX: ("onnx/model_int8.onnx", "onnx/model.onnx"),
}


def exported_model(folder: str, format_name: str) -> str | None:
    """Returns the path of the model of an export that is to be run, if any."""
    names = EXPORTED_MODELS[format_name]
    paths = (os.path.join(folder, name) for name in names)
    return next(filter(os.path.isfile, paths), None)


def _format(folder: str) -> str:
    """Returns the format of the model in a folder; "" if there is none."""
    names = (name for name in EXPORTED_MODELS if exported_model(folder, name))
    return next(names, "")


def recognises(path: str) -> bool:
    """Returns whether a path is the folder of an export."""
    return bool(_format(path))


def describe(path: str, albert_config: AlbertConfig | None) -> Checkpoint:
    """Describes an export, which has no arrays."""
    checkpoint = tf1.describe_folders([path], LazyArrays(path, _no_arrays))
    if not checkpoint.metadata.head:
        raise ValueError(
            f"{path!r} was exported by another program. Pass an export of "
            "export_saved_model.py, or a checkpoint."
        )
    return dataclasses.replace(checkpoint, path=path, format=_format(path))


def _no_arrays(path: str) -> Arrays:
    raise ValueError(
        f"{path!r} is an export for LiteRT or ONNX, which only "
        "`load_predictor` runs. Pass the checkpoint it was made of."
    )
