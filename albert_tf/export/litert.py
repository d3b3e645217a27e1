"""Exports in LiteRT's format.

The file takes ids, because LiteRT has no tokenizers. Beside it is what
`load_predictor` needs to make ids of texts, and answers of outputs.

In int8, the matrices of linear layers have a scale for each output, and their
inputs one for each token, found when the model runs: what varies from text to
text, and from pass to pass through the shared block, needs no calibration. The
table of words has one scale. Everything else is float32.
"""

import dataclasses
import os
from collections.abc import Iterable

import tensorflow as tf

from albert_tf import files, quiet
from albert_tf.checkpoints import checkpoint, discovery, metadata
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import CONFIG_FILE
from albert_tf.export.export_config import ExportConfig
from albert_tf.serving import signature
from albert_tf.serving.signature import Signature
from albert_tf.tasks.spec import Exported, HeadSpec


def write(
    folder: str,
    exported: Exported,
    signatures: Iterable[Signature],
    source: Checkpoint,
    spec: HeadSpec,
    config: ExportConfig,
) -> None:
    """Writes the signature of ids as `model.tflite`, and what is beside it.

    Inputs and outputs keep their names; batch and length are dynamic. Only
    LiteRT's own operations are used.
    """
    [by_ids] = (one for one in signatures if one.name == signature.TOKENS)
    module = tf.Module()
    module.weights = exported.weights.copies
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [by_ids.function], module
    )
    if config.quantize:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    with quiet.hidden():
        content = converter.convert()
    path = os.path.join(folder, discovery.LITERT_MODEL)
    with files.atomic_write(path) as file:
        file.write(content)
    source.known_config.to_json_file(os.path.join(folder, CONFIG_FILE))
    checkpoint.write_vocabulary(source, folder)
    known = dataclasses.replace(
        exported.settings.applied_to(source.metadata),
        head=spec.litert_head,
        settings={**source.settings, **exported.settings.answer_settings()},
    )
    metadata.write(folder, known)
