"""The checkpoints in the folder of a run.

    run/checkpoints/step-00000100/
    run/best/
    run/flags.txt

Plain Python.
"""

import os
import re

from albert_tf import files, folders

BEST_FOLDER = "best"
CHECKPOINTS_FOLDER = "checkpoints"
# The stem of the weights' files in each of these folders.
MODEL_PREFIX = "model.ckpt"
FLAGS_FILE = "flags.txt"
# The state of a run besides its weights.
STATE_FILE = "state.json"
# Key of a state: the score of the weights in `best/`; None if there are none.
BEST_SCORE = "best_score"
_STEP_FOLDER = re.compile(r"step-(\d{8,})$")


def checkpoint_path(output_dir: str, step: int) -> str:
    """Returns the folder of the checkpoint that a run saves at a step."""
    return os.path.join(output_dir, CHECKPOINTS_FOLDER, f"step-{step:08d}")


def steps(output_dir: str) -> list[int]:
    """Returns the steps of a run's checkpoints in increasing order."""
    folder = os.path.join(output_dir, CHECKPOINTS_FOLDER)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    matches = (_STEP_FOLDER.match(name) for name in names)
    return sorted(int(match.group(1)) for match in matches if match)


def latest_checkpoint(output_dir: str) -> str | None:
    """Returns the folder of a run's newest checkpoint, or None."""
    saved = steps(output_dir)
    return checkpoint_path(output_dir, saved[-1]) if saved else None


def flags_of(output_dir: str) -> str:
    """Returns the flags that a run was trained with; "" if unknown."""
    path = os.path.join(output_dir, FLAGS_FILE)
    return files.read_text(path) if os.path.exists(path) else ""


def trained_weights(output_dir: str) -> str | None:
    """Returns the folder of a run's best weights, or None.

    If the run was never evaluated, or has gone on without evaluations, these
    are its newest weights. If it was killed while its best weights were
    replaced, they are where they were moved.
    """
    newest = latest_checkpoint(output_dir)
    if newest:
        path = os.path.join(newest, STATE_FILE)
        state = files.read_json_object(path, missing_ok=True)
        if state.get(BEST_SCORE, 0) is None:
            return newest
    best = os.path.join(output_dir, BEST_FOLDER)
    if os.path.isdir(best):
        return best
    return folders.replaced_copy(best) or newest


def folders_of(path: files.Path) -> list[str]:
    """Returns the folders with the files that belong to a checkpoint.

    `path` is its prefix or folder. The folder of the weights comes first; then
    the folder of the run, if a run has saved them.
    """
    name = os.path.abspath(files.check_local(path))
    folder = name if os.path.isdir(name) else os.path.dirname(name)
    parent, stem = os.path.split(folder)
    is_moved = folder == folders.replaced_copy(
        os.path.join(parent, BEST_FOLDER)
    )
    if is_moved or stem in (BEST_FOLDER, CHECKPOINTS_FOLDER):
        return [folder, parent]
    if os.path.basename(parent) == CHECKPOINTS_FOLDER:
        return [folder, os.path.dirname(parent)]
    return [folder]
