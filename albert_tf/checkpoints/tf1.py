"""TF1 checkpoints: `P.index` and `P.data-00000-of-00001`, arrays by name.

Reads what google-research/albert released and wrote, and writes the same.
Checkpoints of our own runs have this format, too.

`albert_config.json` and the vocabulary are beside the two files. In a run, the
config is in the folder of the run.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import (
    beside,
    checkpoint,
    metadata,
    run_checkpoints,
    variable_names,
)
from albert_tf.checkpoints.checkpoint import Checkpoint, WriteReport
from albert_tf.config import CONFIG_FILE

# TF1: the stem of the released checkpoints.
_RELEASED_PREFIX = "model.ckpt-best"
_DATA = ".data-00000-of-00001"
# Not in the original's configs; `write_released` leaves it out.
_OUR_FIELD = "parameter_sharing"
_NOT_IN_ORIGINAL = (
    f"only in {metadata.METADATA_FILE}, which the original does not read"
)


def read(
    path: files.Path, *, wanted: Callable[[str], bool] | None = None
) -> dict[str, np.ndarray]:
    """Reads arrays of a checkpoint by name, without `module/`.

    For the path, see `beside.resolve`. `wanted` says of a full name whether to
    read it; None stands for all.
    """
    prefix = beside.resolve(path)
    try:
        reader = tf.train.load_checkpoint(prefix)
        arrays: dict[str, np.ndarray] = {}
        for full_name in filter(
            wanted, sorted(reader.get_variable_to_shape_map())
        ):
            name = full_name.removeprefix(variable_names.MODULE_PREFIX)
            if name in arrays:
                raise ValueError(
                    f"Checkpoint {prefix!r} has {name!r} twice, with and "
                    f"without {variable_names.MODULE_PREFIX!r}."
                )
            arrays[name] = np.asarray(reader.get_tensor(full_name))
        return arrays
    # The reader raises IndexError at the end of a truncated data file.
    except (tf.errors.OpError, IndexError) as error:
        raise ValueError(
            f"Checkpoint {prefix!r} is damaged or incomplete "
            f"({' '.join(str(error).split())}). Copy its .index and .data "
            "files again."
        ) from error


def read_weights(path: files.Path) -> dict[str, np.ndarray]:
    """Reads all arrays except optimizer slots and step counter; see `read`."""
    is_state = variable_names.is_training_state
    return read(path, wanted=lambda name: not is_state(name))


def read_step(path: files.Path) -> int:
    """Reads the step at which a checkpoint was saved, 0 if unknown."""
    step = variable_names.GLOBAL_STEP
    return int(read(path, wanted=lambda name: name == step).get(step, 0))


def write(prefix: files.Path, arrays: Mapping[str, Any]) -> None:
    """Writes arrays; the index appears when the data are complete.

    Missing folders are made.
    """
    name = files.check_local(prefix)
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    partial = files.partial_name(name)
    try:
        _save(partial, arrays)
        # An older checkpoint of this name loses its index first, so that it
        # is never found with the new data.
        _remove(name + beside.INDEX)
        os.replace(partial + _DATA, name + _DATA)
        os.replace(partial + beside.INDEX, name + beside.INDEX)
    except BaseException:
        _remove(partial + _DATA)
        _remove(partial + beside.INDEX)
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
    for ending in (_DATA, beside.INDEX):
        with open(prefix + ending, "rb+") as file:
            os.fsync(file.fileno())


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def write_released(folder: str, source: Checkpoint) -> WriteReport:
    """Writes what google-research/albert reads to an empty folder.

    Optimizer slots are written, too; and, for other readers, the metadata.
    """
    config = checkpoint.as_groups(
        checkpoint.known_config(source), "google-research/albert"
    )
    values = config.to_dict()
    del values[_OUR_FIELD]
    files.write_json(os.path.join(folder, CONFIG_FILE), values)
    _write(os.path.join(folder, _RELEASED_PREFIX), source)
    # The original lower-cases by default, and has programs for its tasks.
    is_default = source.metadata.do_lower_case is not False
    others = dataclasses.replace(
        source.metadata,
        task=None,
        do_lower_case=None if is_default else False,
    )
    return WriteReport(
        [], checkpoint.notes_of_metadata(others, _NOT_IN_ORIGINAL)
    )


def write_ours(folder: str, source: Checkpoint) -> WriteReport:
    """Writes a checkpoint as our runs do to an empty folder."""
    config = checkpoint.known_config(source)
    config.to_json_file(os.path.join(folder, CONFIG_FILE))
    _write(os.path.join(folder, run_checkpoints.MODEL_PREFIX), source)
    return WriteReport([], [])


def _write(prefix: str, source: Checkpoint) -> None:
    write(prefix, source.arrays)
    folder = os.path.dirname(prefix)
    metadata.write(folder, source.metadata)
    if source.vocabulary:
        checkpoint.write_vocabulary(source, folder)
