"""Exports in LiteRT's format.

The file takes ids, because LiteRT has no tokenizers. Beside it is what
`load_predictor` needs to make ids of texts, and answers of outputs.

In int8, the matrices of linear layers have a scale for each output, and their
inputs one for each token, found when the model runs: what varies from text to
text, and from pass to pass through the shared block, needs no calibration. The
table of words has one scale. Everything else is float32.
"""

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import checkpoint, discovery, metadata
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import CONFIG_FILE
from albert_tf.serving.exported_encoder import ExportedWeights


def write(
    folder: str, function: Any, weights: ExportedWeights, *, quantizes: bool
) -> None:
    """Writes a signature of ids as `model.tflite`.

    Inputs and outputs keep their names; batch and length are dynamic. Only
    LiteRT's own operations are used.
    """
    module = tf.Module()
    module.weights = weights.copies
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [function], module
    )
    if quantizes:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    with without_progress_messages():
        content = converter.convert()
    path = os.path.join(folder, discovery.LITERT_MODEL)
    with files.atomic_write(path) as file:
        file.write(content)


def write_beside(
    folder: str, source: Checkpoint, settings: Mapping[str, Any]
) -> None:
    """Writes what `load_predictor` needs beside the model.

    `source` has config, vocabulary and metadata; `settings` are those of the
    fine-tuning and of the export.
    """
    source.known_config.to_json_file(os.path.join(folder, CONFIG_FILE))
    checkpoint.write_vocabulary(source, folder)
    metadata.write(folder, source.metadata)
    path = os.path.join(folder, discovery.LITERT_SETTINGS)
    files.write_json(path, dict(settings))


@contextlib.contextmanager
def without_progress_messages() -> Iterator[None]:
    """Suppresses TensorFlow's messages about every file that it writes."""
    disabled = logging.root.manager.disable
    logging.disable(max(disabled, logging.INFO))
    try:
        yield
    finally:
        logging.disable(disabled)
