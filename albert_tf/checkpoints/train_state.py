"""Saves and restores the checkpoints of a run.

A checkpoint is a folder, `step-00000100/`, from which a killed run continues
as if it had never stopped. It holds `model.ckpt.*` (weights, slots and global
step under the names of the released checkpoints), `state.json` (the rest) and
`metadata.json`. It is always complete. A thread writes it while the training
goes on.
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from concurrent import futures

import keras
import numpy as np

from albert_tf import files, folders
from albert_tf.checkpoints import run_checkpoints, tf1, variable_names
from albert_tf.checkpoints.metadata import Metadata


class Checkpointer:
    """Saves and restores the checkpoints of one run.

    Args:
        output_dir: Folder of the run.
        model: Model whose weights are saved.
        optimizer: Built optimizer, whose `slots(variable)` are two for each of
            the `trained` weights.
        keep_max: Number of checkpoints to keep.
        trained: Weights that the optimizer updates.
        metadata: Written with each checkpoint.
    """

    def __init__(
        self,
        output_dir: str,
        *,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        keep_max: int,
        trained: Iterable[keras.Variable],
        metadata: Metadata | None = None,
    ) -> None:
        self._output_dir = output_dir
        self._weights = variable_names.variables_by_tf1_name(
            model.trainable_variables
        )
        named = variable_names.variables_by_tf1_name(trained)
        suffixes = variable_names.SLOT_SUFFIXES
        self._slots = {
            name + suffix: slot
            for name, variable in named.items()
            for suffix, slot in zip(
                suffixes, optimizer.slots(variable), strict=True
            )
        }
        self._keep_max = keep_max
        self.metadata = metadata or Metadata()
        self._writer = futures.ThreadPoolExecutor(1)
        self._written: futures.Future[None] | None = None

    def latest(self) -> str | None:
        """Returns the folder of the newest checkpoint, or None; see `wait`."""
        self.wait()
        return run_checkpoints.latest_checkpoint(self._output_dir)

    def save(self, step: int, state: Mapping[str, object]) -> None:
        """Saves a checkpoint and removes the oldest ones beyond `keep_max`.

        It is complete when `wait` returns, which is called first.
        """
        self.wait()
        path = self._path(step)
        arrays = _arrays(self._weights | self._slots, step)

        def write() -> None:
            _write_folder(path, arrays, state, self.metadata)
            steps = run_checkpoints.steps(self._output_dir)
            for name in map(self._path, steps[: -self._keep_max]):
                # Renamed first: a killed run leaves no half of it.
                os.replace(name, partial := files.partial_name(name))
                shutil.rmtree(partial)

        self._written = self._writer.submit(write)

    def save_evaluated(
        self,
        step: int,
        state: Mapping[str, object],
        scores: Mapping[str, object],
    ) -> None:
        """Replaces the state of a checkpoint, and adds the thresholds."""
        self.wait()
        self.metadata.measured(scores).write(self._path(step))
        _write_state(self._path(step), state)

    def _path(self, step: int) -> str:
        return run_checkpoints.checkpoint_path(self._output_dir, step)

    def save_best(self, step: int, scores: Mapping[str, object]) -> None:
        """Saves the weights of the best evaluation instead of earlier ones.

        Their scores are written as `state.json`. Thresholds among them become
        part of the metadata. As with `save`, see `wait`.
        """
        self.wait()
        path = os.path.join(self._output_dir, run_checkpoints.BEST_FOLDER)
        arrays = _arrays(self._weights, step)
        state = {"step": step, **scores}
        metadata = self.metadata.measured(scores)
        self._written = self._writer.submit(
            _write_folder, path, arrays, state, metadata
        )

    def wait(self) -> None:
        """Waits until every saved checkpoint is on the disk."""
        written, self._written = self._written, None
        if written:
            written.result()

    def raise_failure(self) -> None:
        """Raises the error of `wait` if writing has failed already."""
        if self._written and self._written.done():
            self.wait()

    def close(self) -> None:
        """Ends the thread, after the checkpoint that it writes."""
        self._writer.shutdown()

    def restore(self, path: str) -> files.JsonObject:
        """Sets weights and slots from a checkpoint and returns its state."""
        state_file = os.path.join(path, run_checkpoints.STATE_FILE)
        try:
            arrays = tf1.read(os.path.join(path, run_checkpoints.MODEL_PREFIX))
            state = files.read_json_object(state_file)
        except (ValueError, FileNotFoundError) as error:
            raise ValueError(
                f"{error} Or move the folder {path!r} elsewhere: the run then "
                "goes on from the checkpoint before it, if there is one."
            ) from error
        state.pop("version", None)  # The first version of states has one.
        for name, variable in (self._weights | self._slots).items():
            variable.assign(arrays[name])
        return state


def _arrays(
    variables: Mapping[str, keras.Variable], step: int
) -> dict[str, np.ndarray]:
    # Copies, because a back end may hand out the memory that it will change.
    arrays = {
        name: np.array(keras.ops.convert_to_numpy(variable))
        for name, variable in variables.items()
    }
    return arrays | {variable_names.GLOBAL_STEP: np.asarray(step, np.int64)}


def _write_folder(
    path: str,
    arrays: Mapping[str, np.ndarray],
    state: Mapping[str, object],
    metadata: Metadata,
) -> None:
    """Writes a checkpoint, in place of one at the path."""
    with folders.atomic_folder(path, replace=True) as folder:
        tf1.write(os.path.join(folder, run_checkpoints.MODEL_PREFIX), arrays)
        _write_state(folder, state)
        metadata.write(folder)


def _write_state(folder: str, state: Mapping[str, object]) -> None:
    path = os.path.join(folder, run_checkpoints.STATE_FILE)
    files.write_text(path, json.dumps(dict(state)))
