"""Writes a model as a LiteRT file, with the vocabulary for `load_predictor`.

    D/1/albert_config.json, metadata.json, spiece.model
    D/1/model.tflite

LiteRT has no tokenizers: its only signature takes ids, and the file has only
LiteRT's own operations. In int8, the matrices of linear layers have a scale for
each output, and their inputs have a scale for each token, computed while the
model runs: inputs vary from text to text, and from pass to pass through the
shared block, and need no calibration. The word embeddings have one scale.
Everything else is float32.
"""

import os
from collections.abc import Sequence

import tensorflow as tf

from albert_tf import files, quiet
from albert_tf.checkpoints import vocabularies
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.exported import EXPORTED_MODELS, LITERT
from albert_tf.checkpoints.heads import Head
from albert_tf.serving import signature
from albert_tf.serving.signature import Signature
from albert_tf.tasks.spec import Exported


def write(
    folder: str,
    exported: Exported,
    signatures: Sequence[Signature],
    *,
    checkpoint: Checkpoint,
    head: Head,
    is_quantized: bool,
) -> None:
    """Writes the signature of ids and the vocabulary into a folder."""
    vocabularies.write(checkpoint, folder)
    [by_ids] = (each for each in signatures if each.name == signature.TOKENS)
    module = tf.Module()
    module.weights = exported.weights.copies
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [by_ids.function], module
    )
    if is_quantized:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    with quiet.hidden():
        content = converter.convert()
    [name] = EXPORTED_MODELS[LITERT]
    with files.atomic_write(os.path.join(folder, name)) as file:
        file.write(content)
