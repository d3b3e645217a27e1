"""TF1 checkpoints: `P.index` and `P.data-00000-of-00001`, arrays by name.

Reads what google-research/albert released and wrote, and writes the same.
Our own training checkpoints hold their weights in this form.

Floor: checkpoints.
"""

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import checkpoint

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
