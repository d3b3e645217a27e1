"""Folders with a TF1 checkpoint: Google's releases, and those of our runs.

Beside `P.index` and `P.data-00000-of-00001` lie `albert_config.json` and the
vocabulary. In the folder of a run the config lies one or two floors higher.

Floor: checkpoints.
"""

import glob
import json
import os
import shutil

import numpy as np

from albert_tf import files
from albert_tf.checkpoints import (
    checkpoint,
    run_checkpoints,
    tf1_checkpoint,
    train_state,
    variable_names,
)
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig

CONFIG_FILE = "albert_config.json"
# TF1: the stem of the released checkpoints.
_RELEASED_PREFIX = "model.ckpt-best"
_VOCABULARIES = ("*.model", "*vocab*.txt")


def resolve(path: files.Path) -> str:
    """Returns the prefix of the checkpoint that a path means.

    Args:
        path: What `tf1_checkpoint.resolve_prefix` takes; or the folder of a
            run, which stands for its best checkpoint, or its newest if none
            was evaluated.

    Raises:
        FileNotFoundError: There is no checkpoint there.
        ValueError: A folder has several, and does not say which is meant.
    """
    name = files.check_local(path)
    found = run_checkpoints.trained_weights(name)
    return tf1_checkpoint.resolve_prefix(found or name)


def read(path: files.Path) -> Checkpoint:
    """Reads a checkpoint, and config and vocabulary beside it, if any.

    Args:
        path: What `resolve` takes.

    Raises:
        FileNotFoundError: There is no checkpoint there.
        ValueError: It is damaged, or a folder has several.
    """
    prefix = resolve(path)
    folder = os.path.dirname(prefix)
    return Checkpoint(
        arrays=read_arrays(prefix),
        config=_config_beside(folder),
        vocabulary=_vocabulary_in(folder),
    )


def read_arrays(
    path: files.Path, *, with_slots: bool = True
) -> dict[str, np.ndarray]:
    """Reads the arrays alone, by name without `module/`.

    Args:
        path: What `resolve` takes.
        with_slots: Whether to read optimizer slots and step counter too.

    Raises:
        FileNotFoundError, ValueError: As `read`.
    """
    prefix = resolve(path)
    wanted = [
        name
        for name in tf1_checkpoint.read_shapes(prefix)
        if with_slots or not variable_names.is_training_state(name)
    ]
    return {
        name.removeprefix(variable_names.MODULE_PREFIX): array
        for name, array in tf1_checkpoint.read(prefix, wanted).items()
    }


def _config_beside(folder: str) -> AlbertConfig | None:
    folders = [folder]
    absolute = os.path.abspath(folder)
    parent = os.path.dirname(absolute)
    if os.path.basename(absolute) == run_checkpoints.BEST_FOLDER:
        folders.append(parent)
    if os.path.basename(parent) == run_checkpoints.CHECKPOINTS_FOLDER:
        folders.append(os.path.dirname(parent))
    for candidate in folders:
        path = os.path.join(candidate, CONFIG_FILE)
        if os.path.isfile(path):
            return AlbertConfig.from_json_file(path)
    return None


def _vocabulary_in(folder: str) -> str | None:
    for pattern in _VOCABULARIES:
        found = glob.glob(os.path.join(glob.escape(folder), pattern))
        if len(found) == 1:
            return found[0]
    return None


def write_released(folder: str, source: Checkpoint) -> list[str]:
    """Writes what google-research/albert reads.

    Args:
        folder: An empty one.
        source: What to write; optimizer slots too.

    Returns:
        Names of the arrays that have no place there: none.

    Raises:
        ValueError: Half of each block is shared, which the original cannot.
    """
    config = checkpoint.as_groups(
        checkpoint.known_config(source), "google-research/albert"
    )
    # A key of ours, which it would keep and not obey.
    values = config.to_dict()
    del values["parameter_sharing"]
    files.write_text(
        os.path.join(folder, CONFIG_FILE), json.dumps(values, indent=2) + "\n"
    )
    return _write(os.path.join(folder, _RELEASED_PREFIX), source)


def write_ours(folder: str, source: Checkpoint) -> list[str]:
    """Writes a checkpoint as our runs do; as `write_released` otherwise."""
    config = checkpoint.known_config(source)
    config.to_json_file(os.path.join(folder, CONFIG_FILE))
    return _write(os.path.join(folder, train_state.MODEL_PREFIX), source)


def _write(prefix: str, source: Checkpoint) -> list[str]:
    tf1_checkpoint.write(prefix, source.arrays)
    if source.vocabulary:
        name = os.path.basename(source.vocabulary)
        if not name.endswith((".model", ".txt")):
            name = "spiece.model"
        target = os.path.join(os.path.dirname(prefix), name)
        shutil.copyfile(source.vocabulary, target)
    return []
