"""Notices a run that learns nothing: one answer for all, or a loss that stays.

Fine-tuning with few examples ends so in a good part of its seeds (Mosbach et
al. 2021, "On the stability of fine-tuning BERT"); a shared block makes it no
rarer. Verdicts are read off the lines of the run's log, so that a run that was
killed and started again gets the same ones.

What learns nothing says at best what the shares of the labels say: the answer
that is most frequent, or their mean, at the loss that these give.

Floor: training. NumPy.

Attempts of one run: what a restart changes, and what it leaves.

`attempts.json` says which attempt a folder is in, so that a run that is killed
goes on with it.

Floor: training. Plain Python.
"""

import contextlib
import dataclasses
import glob
import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import files
from albert_tf.checkpoints import run_checkpoints
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.tasks.task import Outputs
from albert_tf.training import metric_log, run_folder

# A run of fewer updates is a trial, and a smaller set gives one answer by
# chance; neither is judged.
LEAST_STEPS = 50
LEAST_RECORDS = 16
# Key of an evaluation's log line, 1 if its predictions were the same.
CONSTANT_KEY = "constant_predictions"
# Evaluations in a row with constant predictions, not before this share of the
# run, and with a loss that is above this share of the loss of nothing learnt.
NUM_CONSTANT = 3
EARLIEST_CONSTANT = 0.25
SOUND_LOSS = 0.9
# From this share of the run on, the mean loss over this span of it must be
# below this share of the loss of nothing learnt.
LOSS_JUDGEMENT = 0.5
LOSS_SPAN = 0.1
LEAST_DESCENT = 0.98
# Spread of numbers that are one and the same answer.
_SAME = 1e-3
# Predictions vary by no more than a handful if they do so by at most this
# share of what the labels do.
_HANDFUL = 0.05


class RunCollapsed(ValueError):
    """A run has learnt nothing; the message says by what one sees it."""


def chance_loss(labels: np.ndarray) -> float:
    """Returns the loss of a model that knows the labels' shares, and no text.

    >>> round(chance_loss(np.array([0, 1, 1, 0])), 4)
    0.6931

    Args:
        labels: `[N]`: of integers, their entropy in nats; of floats, the
            variance.
    """
    if not np.issubdtype(labels.dtype, np.integer):
        return float(np.var(labels, dtype=np.float64))
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    return float(-np.sum(shares * np.log(shares)))


def are_constant(outputs: Outputs, labels: np.ndarray | None = None) -> bool:
    """Tells whether a model gives all records the same answer.

    Args:
        outputs: Of at least one record. Of `[N, K]` with K above 1, and of
            outputs along the sequence, the greatest counts, of integers `[N,
            K]` the first; of numbers, whether they differ by more than noise.
        labels: `[N]`, true answers of a model with one output; of integers,
            places of `[N, K]`. With them, answers that are the same for all
            but a handful are constant, too: those that differ from the most
            frequent one (of numbers, their standard deviation) are at most a
            twentieth of what they are of the labels.

    Returns:
        Whether that is so of every output.
    """
    if all(_is_constant(values) for values in outputs.values()):
        return True
    if labels is None or len(outputs) != 1:
        return False
    (values,) = outputs.values()
    if not isinstance(values, np.ndarray) or len(values) != len(labels):
        return False
    rows = values.reshape(len(values), -1)
    if np.issubdtype(labels.dtype, np.integer):
        answers = np.argmax(rows, axis=1)
        return _num_others(answers) <= _HANDFUL * _num_others(labels)
    return bool(np.std(rows) <= _HANDFUL * np.std(labels))


def _num_others(answers: np.ndarray) -> int:
    """Returns how many answers are not the most frequent one."""
    return len(answers) - int(np.unique(answers, return_counts=True)[1].max())


def _is_constant(values: np.ndarray | list[np.ndarray]) -> bool:
    if isinstance(values, list):
        return len({int(np.argmax(row)) for row in values}) == 1
    if values.size == 0:
        return True
    rows = values.reshape(len(values), -1)
    if np.issubdtype(values.dtype, np.integer):
        return bool(np.all(rows[:, 0] == rows[0, 0]))
    if rows.shape[1] > 1:
        return len(set(np.argmax(rows, axis=1).tolist())) == 1
    return bool(np.ptp(rows) <= _SAME * max(1.0, float(np.abs(rows).max())))


def problem(
    lines: Sequence[Mapping[str, Any]],
    *,
    num_train_steps: int,
    num_warmup_steps: int,
    chance: float,
) -> str | None:
    """Says what is wrong with a run that is under way, if anything.

    Args:
        lines: Of its log up to now, in order.
        num_train_steps: Updates of the whole run.
        num_warmup_steps: Those of the warm-up, after which it is judged.
        chance: Loss of a model that knows no text, above 0.

    Returns:
        A clause without a stop, such as "the loss is ...", or None.
    """
    losses = [(x["step"], x["loss"]) for x in lines if "loss" in x]
    if num_train_steps < LEAST_STEPS or not losses:
        return None
    step = lines[-1]["step"]
    span = LOSS_SPAN * num_train_steps
    if step < num_warmup_steps + span:
        return None
    now = _mean([v for s, v in losses if s > step - span] or [losses[-1][1]])
    if step >= EARLIEST_CONSTANT * num_train_steps and (
        now > SOUND_LOSS * chance
    ):
        flags = [x[f"eval_{CONSTANT_KEY}"] for x in lines if _judged(x)]
        if len(flags) >= NUM_CONSTANT and all(flags[-NUM_CONSTANT:]):
            return (
                f"{NUM_CONSTANT} evaluations in a row gave all records the "
                "same prediction"
            )
    # A line is the mean over the steps since the one before it: the first
    # one's has the run's start in it.
    is_known = len(losses) > 1 and step >= LOSS_JUDGEMENT * num_train_steps
    if is_known and now > LEAST_DESCENT * chance:
        return (
            f"the loss is {now:.4g}, and a model that knows no text has "
            f"{chance:.4g}"
        )
    return None


def _judged(line: Mapping[str, Any]) -> bool:
    return f"eval_{CONSTANT_KEY}" in line


def _mean(values: Sequence[float | None]) -> float:
    known = [v for v in values if v is not None and math.isfinite(v)]
    return sum(known) / len(known) if known else math.inf


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
