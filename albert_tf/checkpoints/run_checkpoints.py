"""Where a run keeps its checkpoints: the newest ones, and the best.

    run/checkpoints/step-00000100/
    run/best/

Floor: checkpoints. Plain Python: a script looks here before any slow import.
"""

import os
import re

BEST_FOLDER = "best"
CHECKPOINTS_FOLDER = "checkpoints"
_STEP_FOLDER = re.compile(r"step-(\d{8,})$")


def checkpoints_folder(output_dir: str) -> str:
    """Returns the folder of a run's newest checkpoints."""
    return os.path.join(output_dir, CHECKPOINTS_FOLDER)


def checkpoint_path(output_dir: str, step: int) -> str:
    """Returns the folder of the checkpoint after so many updates."""
    return os.path.join(checkpoints_folder(output_dir), f"step-{step:08d}")


def steps(output_dir: str) -> list[int]:
    """Returns the updates that made each checkpoint of a run, rising."""
    folder = checkpoints_folder(output_dir)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    matches = (_STEP_FOLDER.match(name) for name in names)
    return sorted(int(match.group(1)) for match in matches if match)


def latest_checkpoint(output_dir: str) -> str | None:
    """Returns the folder of a run's newest checkpoint; None without any."""
    found = steps(output_dir)
    return checkpoint_path(output_dir, found[-1]) if found else None


def step_of(path: str | None) -> int:
    """Returns the updates that made the checkpoint in a folder.

    >>> step_of("run/checkpoints/step-00000100")
    100

    Args:
        path: As `latest_checkpoint` returns it; None counts as -1.
    """
    return -1 if path is None else int(path.rpartition("-")[2])


def trained_weights(output_dir: str) -> str | None:
    """Returns the path of a run's best weights; None if it has no weights.

    Without an evaluation, those are the newest.
    """
    best = os.path.join(output_dir, BEST_FOLDER)
    return best if os.path.isdir(best) else latest_checkpoint(output_dir)
