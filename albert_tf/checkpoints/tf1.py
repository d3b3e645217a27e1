"""TF1 checkpoints: `P.index` and `P.data-00000-of-00001`, arrays by name.

Reads what google-research/albert released and wrote, and writes the same.
Our own training checkpoints hold their weights in this form.

Floor: checkpoints.

Folders with a TF1 checkpoint: Google's releases, and those of our runs.

Beside `P.index` and `P.data-00000-of-00001` lie `albert_config.json` and the
vocabulary. In the folder of a run the config lies one or two floors higher.

Floor: checkpoints.
"""

import glob
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import (
    checkpoint,
    run_checkpoints,
    train_state,
    variable_names,
)
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig

_INDEX = ".index"
_DATA = ".data-00000-of-00001"
_ENDING = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
_STATE_FILE = "checkpoint"


def resolve_prefix(path: files.Path) -> str:
    """Returns the prefix of the checkpoint that a path means.

    Args:
        path: A prefix; one of the files that begin with it; or a folder, in
            which the file `checkpoint` names the prefix if there are several.

    Raises:
        FileNotFoundError: There is no checkpoint there.
        ValueError: A folder has several, and does not say which is meant.
    """
    name = files.check_local(path)
    if os.path.isdir(name):
        return _prefix_in_folder(name)
    prefix = _ENDING.sub("", name)
    if not os.path.isfile(prefix + _INDEX):
        raise FileNotFoundError(
            f"There is no checkpoint {name!r}: no file {prefix + _INDEX!r}. "
            "Pass a checkpoint's prefix or its folder."
        )
    return prefix


def _prefix_in_folder(folder: str) -> str:
    found = sorted(
        path[: -len(_INDEX)]
        for path in glob.glob(os.path.join(glob.escape(folder), f"*{_INDEX}"))
    )
    if not found:
        raise FileNotFoundError(
            f"Folder {folder!r} has no checkpoint (no file *{_INDEX}). Pass a "
            "checkpoint's prefix or its folder."
        )
    named = _prefix_in_state_file(folder)
    if named in found:
        return named
    if len(found) > 1:
        raise ValueError(
            f"Folder {folder!r} has {len(found)} checkpoints and no file "
            f"`{_STATE_FILE}` that names one of them. Pass the prefix of one: "
            f"{checkpoint.some(found)}."
        )
    return found[0]


def _prefix_in_state_file(folder: str) -> str:
    state_file = os.path.join(folder, _STATE_FILE)
    if not os.path.isfile(state_file):
        return ""
    text = files.read_text(state_file)
    match = re.search(r'^model_checkpoint_path: "(.*)"', text, re.MULTILINE)
    # The released files name a folder on the machine that wrote them.
    base = os.path.basename(match.group(1)) if match else ""
    return os.path.join(folder, base)


@contextmanager
def _damage_named(prefix: str) -> Iterator[None]:
    try:
        yield
    # The reader raises a data file's end as an IndexError.
    except (tf.errors.OpError, IndexError) as error:
        raise ValueError(
            f"Checkpoint {prefix!r} is damaged or incomplete "
            f"({' '.join(str(error).split())}). Copy its .index and .data "
            "files again."
        ) from error


def read_shapes(path: files.Path) -> dict[str, tuple[int, ...]]:
    """Returns the shape of every array, by name; reads the index only.

    Args:
        path: What `resolve_prefix` takes.

    Raises:
        FileNotFoundError: There is no checkpoint there.
        ValueError: It is damaged, or a folder has several.
    """
    prefix = resolve_prefix(path)
    with _damage_named(prefix):
        reader = tf.train.load_checkpoint(prefix)
        shapes = reader.get_variable_to_shape_map()
    return {name: tuple(shapes[name]) for name in sorted(shapes)}


def read(
    path: files.Path, names: Iterable[str] | None = None
) -> dict[str, np.ndarray]:
    """Returns arrays of a checkpoint by name.

    Args:
        path: What `resolve_prefix` takes.
        names: Which to read, as `read_shapes` gives them; None for all.

    Raises:
        FileNotFoundError: There is no checkpoint there.
        ValueError: It is damaged, or a folder has several.
    """
    prefix = resolve_prefix(path)
    names = read_shapes(prefix) if names is None else names
    with _damage_named(prefix):
        reader = tf.train.load_checkpoint(prefix)
        return {name: np.asarray(reader.get_tensor(name)) for name in names}


def write(prefix: files.Path, arrays: Mapping[str, Any]) -> None:
    """Writes a checkpoint; its index appears when all of it is there.

    Args:
        prefix: Path without ending; missing folders are made.
        arrays: NumPy arrays or tensors by name.

    Raises:
        OSError: The disk is full, or the folder cannot be written.
    """
    name = files.check_local(prefix)
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    partial = f"{name}.partial"
    try:
        _save(partial, arrays)
        # Without its index, an older checkpoint of this name counts as absent
        # while its data are replaced.
        _remove(name + _INDEX)
        os.replace(partial + _DATA, name + _DATA)
        os.replace(partial + _INDEX, name + _INDEX)
    except BaseException:
        _remove(partial + _DATA)
        _remove(partial + _INDEX)
        raise


def _save(prefix: str, arrays: Mapping[str, Any]) -> None:
    names = sorted(arrays)
    try:
        tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tf.convert_to_tensor(arrays[name]) for name in names],
        )
    except tf.errors.OpError as error:
        raise OSError(
            f"Cannot write checkpoint {prefix!r}: "
            f"{' '.join(str(error).split())}"
        ) from error
    for ending in (_DATA, _INDEX):
        with open(prefix + ending, "rb+") as file:
            os.fsync(file.fileno())


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.remove(path)


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
    return resolve_prefix(found or name)


def read_folder(path: files.Path) -> Checkpoint:
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
        for name in read_shapes(prefix)
        if with_slots or not variable_names.is_training_state(name)
    ]
    return {
        name.removeprefix(variable_names.MODULE_PREFIX): array
        for name, array in read(prefix, wanted).items()
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
    write(prefix, source.arrays)
    if source.vocabulary:
        name = os.path.basename(source.vocabulary)
        if not name.endswith((".model", ".txt")):
            name = "spiece.model"
        target = os.path.join(os.path.dirname(prefix), name)
        shutil.copyfile(source.vocabulary, target)
    return []
