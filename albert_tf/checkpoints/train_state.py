"""Checkpoints of a run: all that a killed run needs to go on as if it lived.

A checkpoint is a folder, `step-00000100/`, with `model.ckpt.*` (weights,
slots and global step under the names of the released checkpoints, so that
every reader of those reads it) and `state.json` (the rest). It is written
under another name and renamed, so that a folder of that name is whole.

Floor: checkpoints.
"""

import contextlib
import glob
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np

from albert_tf import files
from albert_tf.checkpoints import run_checkpoints, tf1, variable_names

MODEL_PREFIX = "model.ckpt"
_STATE = "state.json"
_OLD = ".old"


class Checkpointer:
    """Writes and reads the checkpoints of one run.

    Args:
        output_dir: Folder of the run; checkpoints go to `checkpoints/` in it,
            the weights of the best evaluation to `best/`.
        model: Whose weights are kept.
        optimizer: Whose slots are kept; built. Its `slots(variable)` gives
            the two moments of a variable.
        keep_max: Number of checkpoints to keep, the newest.
        trained: Weights that the optimizer was built with; None for all.
    """

    def __init__(
        self,
        output_dir: str,
        *,
        model: keras.Model,
        optimizer: Any,
        keep_max: int,
        trained: Iterable[keras.Variable] | None = None,
    ) -> None:
        self._output_dir = output_dir
        self._best = os.path.join(output_dir, run_checkpoints.BEST_FOLDER)
        self._weights = variable_names.variables_by_tf1_name(
            model.trainable_variables
        )
        self._slots = _named_slots(
            self._weights
            if trained is None
            else variable_names.variables_by_tf1_name(trained),
            optimizer,
        )
        self._keep_max = keep_max
        _finish_replacements(output_dir)
        _finish_replacements(run_checkpoints.checkpoints_folder(output_dir))

    def latest(self) -> str | None:
        """Returns the folder of the newest checkpoint; None without any."""
        return run_checkpoints.latest_checkpoint(self._output_dir)

    def save(self, step: int, state: Mapping[str, Any]) -> None:
        """Writes a checkpoint and removes the oldest beyond `keep_max`."""
        arrays = _arrays(self._weights | self._slots, step)
        _write_folder(self._path(step), arrays, state)
        for old in run_checkpoints.steps(self._output_dir)[: -self._keep_max]:
            shutil.rmtree(self._path(old))

    def replace_state(self, step: int, state: Mapping[str, Any]) -> None:
        """Gives a checkpoint another state; its arrays stay."""
        _write_state(self._path(step), state)

    def save_best(self, step: int, state: Mapping[str, Any]) -> None:
        """Replaces the weights of the best evaluation."""
        _write_folder(self._best, _arrays(self._weights, step), state)

    def restore(self, path: str) -> dict[str, Any]:
        """Sets weights and slots from a checkpoint; returns its state.

        Raises:
            ValueError: The checkpoint is not of this model and optimizer.
        """
        arrays = tf1.read(os.path.join(path, MODEL_PREFIX))
        for name, variable in (self._weights | self._slots).items():
            if name not in arrays or arrays[name].shape != variable.shape:
                raise ValueError(
                    f"{path!r} has no {name!r} of shape "
                    f"{tuple(variable.shape)}, so it is of another model or "
                    "optimizer. Pass another --output_dir."
                )
            variable.assign(arrays[name])
        return json.loads(files.read_text(os.path.join(path, _STATE)))

    def _path(self, step: int) -> str:
        return run_checkpoints.checkpoint_path(self._output_dir, step)


def _named_slots(
    weights: Mapping[str, keras.Variable], optimizer: Any
) -> dict[str, keras.Variable]:
    return {
        name + suffix: slot
        for name, variable in weights.items()
        for suffix, slot in zip(
            variable_names.SLOT_SUFFIXES, optimizer.slots(variable), strict=True
        )
    }


def _arrays(
    variables: Mapping[str, keras.Variable], step: int
) -> dict[str, np.ndarray]:
    arrays = {
        name: keras.ops.convert_to_numpy(variable)
        for name, variable in variables.items()
    }
    return arrays | {variable_names.GLOBAL_STEP: np.asarray(step, np.int64)}


def _write_folder(
    path: str, arrays: Mapping[str, np.ndarray], state: Mapping[str, Any]
) -> None:
    partial = f"{path}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    try:
        tf1.write(os.path.join(partial, MODEL_PREFIX), arrays)
        _write_state(partial, state)
        _replace_folder(partial, path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _write_state(path: str, state: Mapping[str, Any]) -> None:
    files.write_text(os.path.join(path, _STATE), json.dumps(state))


def _finish_replacements(folder: str) -> None:
    """Brings back what a kill within `_replace_folder` has left nameless."""
    for old in glob.glob(os.path.join(glob.escape(folder), f"*{_OLD}")):
        path = old.removesuffix(_OLD)
        if not os.path.exists(path):
            # Another worker may be quicker.
            with contextlib.suppress(FileNotFoundError):
                os.replace(old, path)


def _replace_folder(new: str, path: str) -> None:
    old = path + _OLD
    shutil.rmtree(old, ignore_errors=True)
    if os.path.exists(path):
        os.replace(path, old)
    os.replace(new, path)
    shutil.rmtree(old, ignore_errors=True)
