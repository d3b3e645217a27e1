"""Attempts of one run: what a restart changes, and what it leaves.

`attempts.json` says which attempt a folder is in, so that a run that is killed
goes on with it.

Floor: training. Plain Python.
"""

import contextlib
import dataclasses
import glob
import json
import os
import shutil

from albert_tf import files
from albert_tf.checkpoints import run_checkpoints
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.training import metric_log, run_folder

FILE_NAME = "attempts.json"
# Seeds of attempts lie far from those of other runs, which are consecutive.
_SEED_DISTANCE = 1_000_003
_WARMUP_SHARE = 0.1
_LONGEST_WARMUP = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attempts:
    """What has been tried.

    Args:
        problems: Of the attempts that failed.
        is_cleared: Whether what they left is put aside.
    """

    problems: tuple[str, ...] = ()
    is_cleared: bool = True

    @property
    def number(self) -> int:
        """Number of the attempt that is under way, from 0."""
        return len(self.problems)

    def seed(self, random_seed: int) -> int:
        """Returns the seed of the attempt; of the first, the run's own."""
        return random_seed + _SEED_DISTANCE * self.number

    def optimizer(self, config: OptimizerConfig) -> OptimizerConfig:
        """Returns the settings with a longer warm-up at each restart.

        It doubles each time, is at least a tenth of the run longer, and ends
        by the middle of the run.
        """
        if not self.number:
            return config
        steps = config.num_train_steps
        longer = max(
            config.num_warmup_steps * 2**self.number,
            int(steps * _WARMUP_SHARE * self.number),
        )
        longest = int(steps * _LONGEST_WARMUP) - config.start_warmup_step
        return dataclasses.replace(
            config,
            num_warmup_steps=max(config.num_warmup_steps, min(longer, longest)),
        )


def read(output_dir: str) -> Attempts:
    """Returns the attempts of a run; finishes a clearing that was killed."""
    path = os.path.join(output_dir, FILE_NAME)
    if not os.path.exists(path):
        return Attempts()
    values = json.loads(files.read_text(path))
    found = Attempts(
        problems=tuple(values["problems"]), is_cleared=values["is_cleared"]
    )
    return found if found.is_cleared else _clear(output_dir, found)


def fail(output_dir: str, attempts: Attempts, problem: str) -> Attempts:
    """Notes that the attempt under way failed, and makes room for the next.

    The log goes to `attempt-<number>.jsonl`; checkpoints are removed.
    """
    failed = Attempts(problems=(*attempts.problems, problem), is_cleared=False)
    with run_folder.locked(output_dir):
        _write(output_dir, failed)
        return _clear(output_dir, failed)


def _clear(output_dir: str, attempts: Attempts) -> Attempts:
    log = os.path.join(output_dir, metric_log.FILE_NAME)
    with contextlib.suppress(FileNotFoundError):
        kept = f"attempt-{attempts.number - 1}.jsonl"
        os.replace(log, os.path.join(output_dir, kept))
    for name in (
        run_checkpoints.CHECKPOINTS_FOLDER,
        run_checkpoints.BEST_FOLDER,
    ):
        shutil.rmtree(os.path.join(output_dir, name), ignore_errors=True)
    pattern = os.path.join(glob.escape(output_dir), "events.out.tfevents*")
    for path in glob.glob(pattern):
        os.remove(path)
    cleared = dataclasses.replace(attempts, is_cleared=True)
    _write(output_dir, cleared)
    return cleared


def _write(output_dir: str, attempts: Attempts) -> None:
    text = json.dumps(dataclasses.asdict(attempts), indent=2)
    files.write_text(os.path.join(output_dir, FILE_NAME), text + "\n")
