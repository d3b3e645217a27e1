"""Writes the files by which sentence-transformers loads a folder.

`huggingface` reads them. Source: sentence-transformers 6.
"""

import os
from collections.abc import Mapping
from typing import Any

from albert_tf import files
from albert_tf.checkpoints.checkpoint import Checkpoint

POOLING_FOLDER = "1_Pooling"
# Poolings that both programs have.
_POOLINGS = {"mean": "mean_tokens", "cls": "cls_token"}
_OTHERS = ("max_tokens", "mean_sqrt_len_tokens", "lasttoken")


def can_write(settings: Mapping[str, Any]) -> bool:
    """Returns whether settings of vectors are known, and there, too."""
    return settings.get("pooling") in _POOLINGS


def write(folder: str, source: Checkpoint) -> None:
    """Adds them to a folder that has the model and its tokenizer."""
    settings, config = source.settings, source.known_config
    modules = {"Transformer": "", "Pooling": POOLING_FOLDER}
    if settings.get("normalizes"):
        modules["Normalize"] = "2_Normalize"
    modes = {f"pooling_mode_{name}": False for name in _OTHERS}
    for ours, name in _POOLINGS.items():
        modes[f"pooling_mode_{name}"] = ours == settings["pooling"]
    contents: dict[str, Any] = {
        "modules.json": [
            {
                "idx": i,
                "name": str(i),
                "path": path,
                "type": f"sentence_transformers.models.{name}",
            }
            for i, (name, path) in enumerate(modules.items())
        ],
        "sentence_bert_config.json": {
            "max_seq_length": source.max_seq_length,
            "do_lower_case": False,
        },
        "config_sentence_transformers.json": {
            "prompts": {},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        f"{POOLING_FOLDER}/config.json": {
            "word_embedding_dimension": config.hidden_size,
            **modes,
        },
    }
    for path in filter(None, modules.values()):
        os.makedirs(os.path.join(folder, path), exist_ok=True)
    for name, values in contents.items():
        files.write_json(os.path.join(folder, name), values)
