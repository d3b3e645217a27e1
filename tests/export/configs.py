"""Settings of exports of the recorded model, and its config."""

import json
import pathlib

from albert_tf.config import AlbertConfig
from albert_tf.export.export_config import ExportConfig

BASE = pathlib.Path(__file__).resolve().parents[1] / "parity" / "model_base"


def make_config(folder, vocabulary, **values):
    fields = {
        "init_checkpoint": str(BASE),
        "export_dir": str(folder),
        "spm_model_file": str(vocabulary),
    }
    return ExportConfig(**fields | values)


def base_config(**changes):
    values = json.loads((BASE / "albert_config.json").read_text())
    return AlbertConfig.from_dict(values | {"vocab_size": 300} | changes)
