"""Which rows of a training file are held out to validate on.

Data flow: examples -> [this file] -> examples to train on, to validate on.
"""

import itertools
import logging
from collections.abc import Sequence

import numpy as np

from albert_tf.tasks.classification.examples import ClassificationExample

_logger = logging.getLogger(__name__)


def split(
    examples: Sequence[ClassificationExample], *, share: float, seed: int
) -> tuple[list[ClassificationExample], list[ClassificationExample]]:
    """Divides labelled examples; each part keeps the order of the rows.

    Rows are sorted by label, those of one label shuffled, and every
    1/`share`-th is held out, so that each label, or each range of numbers,
    gives its share to within one row. The only row of a class is trained on.

    Args:
        examples: N examples.
        share: The share to hold out, above 0 and below 1.
        seed: The same seed and examples give the same division.

    Raises:
        ValueError: Nothing would be held out, or nothing would be left.
    """
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(len(examples)).tolist()
    order = sorted(shuffled, key=lambda place: _rank(examples[place]))
    # Not the first row of a class, which may be its only one.
    candidates = [
        place
        for before, place in itertools.pairwise([None, *order])
        if not isinstance(examples[place].label, int)
        or (
            before is not None
            and examples[before].label == examples[place].label
        )
    ]
    # A row is held out where the running sum of the share passes an integer.
    step = share * len(examples) / max(1, len(candidates))
    passed = np.floor(rng.random() + step * np.arange(len(candidates) + 1))
    chosen = {
        place
        for place, rise in zip(candidates, np.diff(passed), strict=True)
        if rise
    }
    if not 0 < len(chosen) < len(examples):
        raise ValueError(
            f"--validation_share={share} of {len(examples)} rows holds "
            f"{len(chosen)} out. Pass a share that leaves rows on both sides, "
            "or an --eval_file."
        )
    parts: tuple[list[ClassificationExample], ...] = ([], [])
    for place, example in enumerate(examples):
        parts[place in chosen].append(example)
    training, validation = parts
    _logger.info(
        "%d rows are held out for validation, %d are trained on.",
        len(validation),
        len(training),
    )
    return training, validation


def _rank(example: ClassificationExample) -> tuple[float, ...]:
    label = example.label
    if isinstance(label, tuple):
        return label
    return (0.0 if label is None else label,)


def warn_of_repetitions(
    training: Sequence[ClassificationExample],
    validation: Sequence[ClassificationExample],
) -> None:
    """Logs how many examples to evaluate have texts that are trained on."""
    texts = {(row.text_a, row.text_b) for row in training}
    repeated = sum((row.text_a, row.text_b) in texts for row in validation)
    if repeated:
        _logger.warning(
            "%d of the %d rows to evaluate have texts that are also trained "
            "on, so the scores are better than those of new rows. Remove "
            "repeated rows.",
            repeated,
            len(validation),
        )
