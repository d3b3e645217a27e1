"""Compares the answers of an export with the answers of its checkpoint.

Numbers do not count: two answers are equal if their labels, the text of their
span, their entities, the likeliest token of each mask are the same.
"""

import logging
from collections.abc import Sequence
from typing import Any

from albert_tf import files
from albert_tf.inference.predictor import Predictor
from albert_tf.tasks import inputs

_LOGGER = logging.getLogger(__name__)
# A smaller share of equal answers is a warning.
_ENOUGH = 0.99


def answers(path: files.Path, predictor: Predictor) -> list[Any]:
    """Returns the answers, without numbers, to the lines of a file."""
    lines = enumerate(files.read_bytes(path).splitlines(), start=1)
    texts = [inputs.parse_line(*line) for line in lines]
    labels = [_without_numbers(answer) for answer in predictor.predict(texts)]
    if not any(labels):
        raise ValueError(
            f"--compare_file={path} has no text that the model answers with a "
            "label. Pass other texts, or leave it out."
        )
    return labels


def _without_numbers(answer: object) -> Any:
    if isinstance(answer, list):
        return [*map(_without_numbers, answer)]
    if not isinstance(answer, dict):
        return answer
    labels = {n: v for n, v in answer.items() if isinstance(v, str | list)}
    labels.pop("vector", None)
    if "masks" in labels:
        labels["masks"] = [mask[:1] for mask in labels["masks"]]
    return {name: _without_numbers(value) for name, value in labels.items()}


def summary(expected: Sequence[Any], exported: Sequence[Any]) -> str:
    """Counts the equal answers, and warns if they are too few."""
    pairs = zip(expected, exported, strict=True)
    num_equal = sum(a == b for a, b in pairs)
    share = num_equal / len(expected)
    text = f"{num_equal} of {len(expected)} labels are kept ({share:.2%})"
    if share < _ENOUGH:
        _LOGGER.warning("%s: measure the scores of the export.", text)
    return text
