"""Folders of an export for LiteRT: `model.tflite`, and what lies beside it.

`load_predictor` runs the model; its weights are not read.
"""

import os
from collections.abc import Mapping
from typing import Any

from albert_tf import files
from albert_tf.checkpoints import (
    checkpoint,
    metadata,
    tf1,
)
from albert_tf.checkpoints.checkpoint import Arrays, Checkpoint, LazyArrays
from albert_tf.config import CONFIG_FILE, AlbertConfig

MODEL_FILE = "model.tflite"
# Older exports passed for a run, and have a `run.json` instead.
_EXPORT_FILE = "export.json"


def describe(path: str, albert_config: AlbertConfig | None) -> Checkpoint:
    """Describes a folder."""
    return tf1.describe_folders(
        [path],
        LazyArrays(path, lambda: _no_arrays(path)),
        settings=files.read_json_object(
            os.path.join(path, _EXPORT_FILE), missing_ok=True
        ),
    )


def _no_arrays(path: str) -> Arrays:
    raise ValueError(
        f"{path!r} is an export for LiteRT, which only `load_predictor` runs. "
        "Pass the checkpoint it was made of."
    )


def write_beside(
    folder: str, source: Checkpoint, settings: Mapping[str, Any]
) -> None:
    """Writes what `describe` reads besides the model.

    `source` has the config, vocabulary and metadata; `settings` are those of
    its fine-tuning, with those of the export.
    """
    source.known_config.to_json_file(os.path.join(folder, CONFIG_FILE))
    checkpoint.write_vocabulary(source, folder)
    metadata.write(folder, source.metadata)
    files.write_json(os.path.join(folder, _EXPORT_FILE), dict(settings))
