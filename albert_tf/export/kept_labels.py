"""Compares the answers of an export with those of its checkpoint.

An answer is kept if all of it but its numbers is the same: labels, the text of
a span, entities, the likeliest token of a mask.
"""

import logging
from collections.abc import Sequence
from typing import Any

from albert_tf import files
from albert_tf.inference.predictor import Predictor
from albert_tf.tasks import inputs

_LOGGER = logging.getLogger(__name__)
# The share below which the user is warned.
_ENOUGH = 0.99


def answers(path: files.Path, predictor: Predictor) -> list[Any]:
    """Returns the answers, without numbers, to the lines of a file."""
    lines = enumerate(files.read_bytes(path).splitlines(), start=1)
    texts = [inputs.parse_line(*line) for line in lines]
    found = [_without_numbers(answer) for answer in predictor.predict(texts)]
    if not any(found):
        raise ValueError(
            f"--compare_file={path} has no text that the model answers with a "
            "label. Pass other texts, or leave it out."
        )
    return found


def _without_numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_numbers(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {n: one for n, one in value.items() if isinstance(one, str | list)}
    if "masks" in kept:
        kept["masks"] = [mask[:1] for mask in kept["masks"]]
    return {n: _without_numbers(one) for n, one in kept.items()}


def summary(expected: Sequence[Any], found: Sequence[Any]) -> str:
    """Says how many answers are kept, and warns if they are too few."""
    pairs = zip(expected, found, strict=True)
    num_kept = sum(one == other for one, other in pairs)
    share = num_kept / len(expected)
    text = f"{num_kept} of {len(expected)} labels are kept ({share:.2%})"
    if share < _ENOUGH:
        _LOGGER.warning("%s: measure the scores of the export.", text)
    return text
