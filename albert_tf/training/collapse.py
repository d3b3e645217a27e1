"""Notices a run that learns nothing: one answer for all, or a loss that stays.

Fine-tuning with few examples ends so in a good part of its seeds (Mosbach et
al. 2021, "On the stability of fine-tuning BERT"); a shared block makes it no
rarer. Verdicts are read off the lines of the run's log, so that a run that was
killed and started again gets the same ones.

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
# Key of an evaluation's log line, 1 if all predictions were the same.
CONSTANT_KEY = "constant_predictions"
# Evaluations in a row with constant predictions, not before this share of the
# run, and with a loss that has not come down to this share of its start.
NUM_CONSTANT = 3
EARLIEST_CONSTANT = 0.25
SOUND_LOSS = 0.9
# The loss is judged once, at this share of the run: it must have come down
# from its start, the mean over the first tenth, to this share of it.
LOSS_JUDGEMENT = 0.5
LOSS_SPAN = 0.1
LEAST_DESCENT = 0.98
# A loss that starts below it is that of weights which know the task.
LEARNT_LOSS = 0.3
# Spread of numbers that are one and the same answer.
_SAME = 1e-3


class RunCollapsed(ValueError):
    """A run has learnt nothing; the message says by what one sees it."""


def are_constant(outputs: Outputs) -> bool:
    """Tells whether a model gives all records the same answer.

    Args:
        outputs: Of at least one record. Of `[N, K]` with K above 1, and of
            outputs along the sequence, the greatest counts, of integers `[N,
            K]` the first; of numbers, whether they differ by more than noise.

    Returns:
        Whether that is so of every output.
    """
    return all(_is_constant(values) for values in outputs.values())


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
) -> str | None:
    """Says what is wrong with a run that is under way, if anything.

    Args:
        lines: Of its log up to now, in order.
        num_train_steps: Updates of the whole run.
        num_warmup_steps: Those of the warm-up, after which it is judged.

    Returns:
        A clause without a stop, such as "the loss is ...", or None.
    """
    losses = [(x["step"], x["loss"]) for x in lines if "loss" in x]
    if num_train_steps < LEAST_STEPS or not losses:
        return None
    step = lines[-1]["step"]
    if step < num_warmup_steps + LOSS_SPAN * num_train_steps:
        return None
    span = LOSS_SPAN * num_train_steps
    start = _mean([v for s, v in losses if s <= max(span, losses[0][0])])
    now = _mean([v for s, v in losses if s > step - span] or [losses[-1][1]])
    if step >= EARLIEST_CONSTANT * num_train_steps and now > SOUND_LOSS * start:
        flags = [x[f"eval_{CONSTANT_KEY}"] for x in lines if _judged(x)]
        if len(flags) >= NUM_CONSTANT and all(flags[-NUM_CONSTANT:]):
            return (
                f"{NUM_CONSTANT} evaluations in a row gave all records the "
                "same prediction"
            )
    is_half_way = step >= LOSS_JUDGEMENT * num_train_steps
    if is_half_way and now > max(LEAST_DESCENT * start, LEARNT_LOSS):
        return f"the loss is {now:.4g}, still where it started ({start:.4g})"
    return None


def _judged(line: Mapping[str, Any]) -> bool:
    return f"eval_{CONSTANT_KEY}" in line


def _mean(values: Sequence[float | None]) -> float:
    known = [v for v in values if v is not None and math.isfinite(v)]
    return sum(known) / len(known) if known else math.inf
