"""Degenerate runs: constant predictions, or a loss at chance level.

Fine-tuning with few examples ends this way for a good part of the seeds
(Mosbach et al. 2021, "On the stability of fine-tuning BERT"). A model that has
learnt nothing predicts at best from the label frequencies alone: always the
most frequent label, or the mean, with the loss that these give.

The verdict is read from the lines of the run's log, so that a run that was
killed and resumed gets the same one.

Floor: training. NumPy.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.tasks.task import Outputs
from albert_tf.training import distribution, metric_log
from albert_tf.training.run_config import FinetuningConfig

# Key of an evaluation's log line, 1 if its predictions were constant.
CONSTANT_KEY = "constant_predictions"
# Shorter runs and smaller sets predict a constant by chance; neither is judged.
LEAST_STEPS = 50
LEAST_RECORDS = 16
# Constant predictions: this many evaluations in a row, after this fraction of
# the run, while the loss is above this fraction of that at chance level.
NUM_CONSTANT = 3
EARLIEST_CONSTANT = 0.25
SOUND_LOSS = 0.9
# Loss at chance level: after this fraction of the run, the mean loss over this
# fraction of it is not below this fraction of that at chance level.
LOSS_JUDGEMENT = 0.5
LOSS_SPAN = 0.1
LEAST_DESCENT = 0.98
# Numbers within this spread, relative to their size, count as equal.
_SAME = 1e-3
# Predictions count as constant if they vary by at most this fraction of the
# variation of the labels.
_LARGEST_VARIATION = 0.05


class RunCollapsed(ValueError):
    """A run is degenerate; the message says how this shows."""


def chance_loss(labels: np.ndarray) -> float:
    """Returns the loss at chance level, from the label frequencies alone.

    It is the entropy in nats of integer labels `[N]`, of a classification, or
    the variance of floats, of a regression.

    >>> round(chance_loss(np.array([0, 1, 1, 0])), 4)
    0.6931
    """
    if not np.issubdtype(labels.dtype, np.integer):
        return float(np.var(labels, dtype=np.float64))
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    return float(-np.sum(shares * np.log(shares)))


def are_constant(outputs: Outputs, labels: np.ndarray | None = None) -> bool:
    """Returns whether a model predicts the same for all records, at least one.

    Compared are the positions of the largest value of outputs `[N, K]` with K
    above 1 and of outputs along the sequence; the first column of integer
    outputs; and the values themselves of `[N]` and `[N, 1]`.

    With the labels `[N]` of a model with one output, predictions are also
    constant if they vary little: if those that differ from the most frequent
    one (for regression, their standard deviation) are at most a twentieth of
    what they are for the labels.
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
        return _num_others(answers) <= _LARGEST_VARIATION * _num_others(labels)
    return bool(np.std(rows) <= _LARGEST_VARIATION * np.std(labels))


def _num_others(answers: np.ndarray) -> int:
    """Counts the answers that differ from the most frequent one."""
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
    """Describes what is wrong with a running training, if anything.

    It is judged by its log so far, after its warm-up; `chance` is the loss at
    chance level, above 0. The answer is a clause, such as "the loss is ...".
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
        key = f"eval_{CONSTANT_KEY}"
        flags = [x[key] for x in lines if key in x]
        if len(flags) >= NUM_CONSTANT and all(flags[-NUM_CONSTANT:]):
            return (
                f"{NUM_CONSTANT} evaluations in a row predicted the same for "
                "all records"
            )
    # The mean of the first line includes the start of the run.
    is_known = len(losses) > 1 and step >= LOSS_JUDGEMENT * num_train_steps
    if is_known and now > LEAST_DESCENT * chance:
        return (
            f"the loss is {now:.4g}, and that at chance level is {chance:.4g}"
        )
    return None


def _mean(values: Sequence[float | None]) -> float:
    known = [v for v in values if v is not None and math.isfinite(v)]
    return sum(known) / len(known) if known else math.inf


def check(
    step: int,
    *,
    config: FinetuningConfig,
    strategy: tf.distribute.Strategy,
    chance: float,
    is_last_attempt: bool,
) -> None:
    """Ends a degenerate run, judged by its log; see `problem`.

    The last attempt is judged only at its end, because there is no further
    attempt for which to save time.

    Raises:
        RunCollapsed: The run is degenerate; raised in all workers.
    """
    if is_last_attempt and step < config.num_train_steps:
        return
    found = None
    if distribution.is_chief(strategy):
        found = problem(
            metric_log.read_lines(config.output_dir),
            num_train_steps=config.num_train_steps,
            num_warmup_steps=config.start_warmup_step + config.num_warmup_steps,
            chance=chance,
        )
    if distribution.any_worker(strategy, found is not None):
        found = found or "the chief found the run degenerate"
        raise RunCollapsed(f"At step {step}, {found}.")
