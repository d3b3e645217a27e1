"""Folders of sentence-transformers: how they make vectors and scores.

Such a folder is a folder of transformers, or has one, and has more files.

Source: sentence-transformers 6.2, `base/modules/transformer.py`,
`sentence_transformer/modules/pooling.py` and `cross_encoder/model.py`.
"""

import logging
import os
import re

from albert_tf import files
from albert_tf.checkpoints import foreign_keys
from albert_tf.checkpoints.checkpoint import Checkpoint

_LOGGER = logging.getLogger(__name__)
_SETTINGS_FILE = "config_sentence_transformers.json"
# The first file that states anything counts.
_TRANSFORMER_FILES = [
    f"sentence_{name}_config.json"
    for name in ("bert", "roberta", "distilbert", "camembert", "albert")
] + ["sentence_xlm-roberta_config.json", "sentence_xlnet_config.json"]
# Modules that are read, or that change nothing when a model answers.
_MODULES = {"Transformer", "Pooling", "Normalize", "Dropout"}
# What a CrossEncoder does to its single output.
_ACTIVATIONS = "torch.nn.modules.linear.", "torch.nn.modules.activation."
IDENTITY = f"{_ACTIVATIONS[0]}Identity"


def _read(*parts: str) -> files.JsonObject:
    return files.read_json_object(os.path.join(*parts), missing_ok=True)


def inside(folder: str, name: str) -> str:
    """Returns the path of a file in a folder; any other path is an error."""
    path = os.path.normpath(os.path.join(folder, name))
    if os.path.relpath(path, folder).startswith(os.pardir):
        raise ValueError(f"{name!r} is outside of the folder")
    return path


def _modules(folder: str) -> dict[str, str]:
    """Returns the folders of the modules by their classes."""
    path = os.path.join(folder, "modules.json")
    modules = files.read_json(path) if os.path.isfile(path) else ()
    folders = {}
    for module in modules:
        package, _, name = module["type"].rpartition(".")
        is_known = package.startswith("sentence_transformers.")
        options = foreign_keys.refused(path, module)
        kind = name if is_known and not options else module["type"]
        folders[kind] = inside(folder, module["path"])
    return folders


def model_folder(path: str) -> str:
    """Returns the folder of the model in a folder of sentence-transformers."""
    return _modules(path).get("Transformer", path)


def _root(folder: str) -> str:
    """Returns the folder whose `modules.json` names a model's folder."""
    own = os.path.abspath(folder)
    parent = os.path.dirname(own)
    is_part = not _modules(own) and model_folder(parent) == own
    return parent if is_part else folder


def settings_of(folder: str, *, lowers: bool) -> files.JsonObject:
    """Returns the settings of answers that the files of a model state.

    They are settings of `load_predictor`, which refuses another `pooling`. The
    tokenizer of the model `lowers` the case of text, or not.
    """
    root = _root(folder)
    modules = _modules(root)
    names = (n for n in _TRANSFORMER_FILES if modules and _read(folder, n))
    texts_file = next(names, "")
    texts = _read(folder, texts_file) if texts_file else {}
    tokens = _read(folder, "tokenizer_config.json")
    most = _read(folder, "config.json").get("max_position_embeddings", 512)
    stated = tokens.get("model_max_length", tokens.get("max_len"))
    length = int(min(texts.get("max_seq_length") or stated or most, most))
    if not modules.keys() - {"Transformer"}:
        # A length that the model allows anyway is not stated.
        return {"max_seq_length": length} if length < most else {}
    pooling_file = os.path.join(modules.get("Pooling", root), "config.json")
    prompts_file = os.path.join(root, _SETTINGS_FILE)
    pooling, prompts = _read(pooling_file), _read(prompts_file)
    modes = (re.fullmatch("pooling_mode_(.*?)(_tokens?)?", n) for n in pooling)
    steps = [mode[1] for mode in modes if mode and pooling[mode[0]] is True]
    if mode := pooling.get("pooling_mode"):
        steps = [mode] if isinstance(mode, str) else [*mode]
    steps = steps or ["mean"]
    steps += sorted(modules.keys() - _MODULES)
    steps += foreign_keys.refused(pooling_file, pooling, "Pooling/config.json")
    steps += foreign_keys.refused(texts_file, texts, _TRANSFORMER_FILES[0])
    steps += foreign_keys.refused(prompts_file, prompts)
    if texts.get("do_lower_case") and not lowers:
        steps.append("do_lower_case")
    # Without a default, `encode` uses none of the prompts.
    default = prompts.get("default_prompt_name")
    if (prompts.get("prompts") or {}).get(default):
        steps.append("prompts")
    return {
        "pooling": " and ".join(steps),
        "normalizes": "Normalize" in modules,
        "max_seq_length": length,
    }


def gives_number(folder: str) -> bool:
    """Returns whether a CrossEncoder's score is its output as it is.

    Three places may state it; without any, the score is a probability.
    """
    config = _read(folder, "config.json")
    stated = (
        _read(_root(folder), _SETTINGS_FILE).get("activation_fn")
        or (config.get("sentence_transformers") or {}).get("activation_fn")
        or config.get("sbert_ce_default_activation_function")
    )
    if stated not in (None, IDENTITY, f"{_ACTIVATIONS[1]}Sigmoid"):
        text = "%s: the activation %s of its scores is not computed"
        _LOGGER.warning(text, folder, stated)
    return stated == IDENTITY


def write(folder: str, checkpoint: Checkpoint) -> bool:
    """Adds the files that `settings_of` reads; returns whether it can."""
    modes = {
        "mean": "pooling_mode_mean_tokens",
        "cls": "pooling_mode_cls_token",
    }
    pooling = checkpoint.settings.get("pooling")
    if pooling not in modes:
        return False
    modules = {"Transformer": "", "Pooling": "1_Pooling"}
    if checkpoint.settings.get("normalizes"):
        modules["Normalize"] = "2_Normalize"
    for path in modules.values():
        os.makedirs(os.path.join(folder, path), exist_ok=True)
    size = checkpoint.known_config.hidden_size
    kind = "sentence_transformers.models."
    contents: files.JsonObject = {
        "modules.json": [
            {"idx": i, "name": str(i), "path": path, "type": kind + name}
            for i, (name, path) in enumerate(modules.items())
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": size,
            **{mode: name == pooling for name, mode in modes.items()},
        },
        "sentence_bert_config.json": {
            "max_seq_length": checkpoint.max_seq_length
        },
    }
    for name, values in contents.items():
        files.write_json(os.path.join(folder, name), values)
    return True
