"""Writes the files by which sentence-transformers loads a folder.

`huggingface` reads them. Source: sentence-transformers 6.
"""

import os
from typing import Any

from albert_tf import files
from albert_tf.checkpoints.checkpoint import Checkpoint

# Poolings that both programs have.
_MODES = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}


def write(folder: str, source: Checkpoint) -> bool:
    """Adds them to a folder of transformers; returns whether it can."""
    settings = source.settings
    if settings.get("pooling") not in _MODES:
        return False
    modules = {"Transformer": "", "Pooling": "1_Pooling"}
    if settings.get("normalizes"):
        modules["Normalize"] = "2_Normalize"
    names = enumerate(modules.items())
    modes = {name: ours == settings["pooling"] for ours, name in _MODES.items()}
    contents: dict[str, Any] = {
        "modules.json": [
            {
                "idx": i,
                "name": str(i),
                "path": path,
                "type": f"sentence_transformers.models.{name}",
            }
            for i, (name, path) in names
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": source.known_config.hidden_size,
            **modes,
        },
        "sentence_bert_config.json": {"max_seq_length": source.max_seq_length},
        "config_sentence_transformers.json": {"similarity_fn_name": "cosine"},
    }
    for path in modules.values():
        os.makedirs(os.path.join(folder, path), exist_ok=True)
    for name, values in contents.items():
        files.write_json(os.path.join(folder, name), values)
    return True
