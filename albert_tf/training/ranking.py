"""Which of two evaluations is better: scores by name, and their losses."""

import math
import re
from collections.abc import Mapping

# Scores whose names end with a label, `f1_of_<label>`, are neither.
_IS_LOSS = re.compile("(?!.+_of_)(.+_)?loss$")
_LOWER_IS_BETTER = re.compile("(?!.+_of_)(.+_)?(loss|mean_.+_error)(_|$)")


def rank(metric: str, score: float) -> float:
    """Returns a number that is the higher the better a score is.

    >>> rank("accuracy", 0.5), rank("masked_lm_loss", 0.5)
    (0.5, -0.5)

    A score that is not a number is the worst.
    """
    if math.isnan(score):
        return -math.inf
    return -score if _LOWER_IS_BETTER.match(metric) else score


def loss_of(scores: Mapping[str, float]) -> float:
    """Returns the sum of the losses among scores; infinite without a number."""
    losses = [score for key, score in scores.items() if _IS_LOSS.match(key)]
    total = sum(losses) if losses else math.inf
    return math.inf if math.isnan(total) else total


def check_known(metric: str, scores: Mapping[str, float]) -> None:
    """Checks that there is a score to select the best weights by."""
    if metric not in scores:
        raise ValueError(
            f"There is no score {metric!r} to select the best weights by. "
            f"Pass as --best_metric one of {', '.join(scores)}."
        )
