"""Notices a run that learns nothing: one answer for all, or a loss that stays.

Fine-tuning with few examples ends so in a good part of its seeds (Mosbach et
al. 2021, "On the stability of fine-tuning BERT"); a shared block makes it no
rarer. Verdicts are read off the lines of the run's log, so that a run that was
killed and started again gets the same ones.

What learns nothing says at best what the shares of the labels say: the answer
that is most frequent, or their mean, at the loss that these give.

Floor: training. NumPy.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.tasks.task_data import Outputs

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
