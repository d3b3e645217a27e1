"""Puts the score of a simple model beside the score of a run.

Data flow: rows that were trained on, evaluated rows -> `metrics.simple_models`
-> [this file] -> scores, and a sentence about them.
"""

import logging
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from albert_tf.metrics import classification, simple_models
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.tasks.task_data import ExampleSet, Outputs
from albert_tf.training.callbacks import Callback

_LOGGER = logging.getLogger(__name__)

# By the ending of keys: which simple model it is.
MODELS = {
    "tfidf": "TF-IDF",
    "linear": "a linear model of words",
}
_MOST_PAIRS = 5000
# The metric whose differences McNemar's test is about.
_TESTED = "accuracy"
_FAILED = "No simple model is compared: %s"
# Several seeds evaluate the same set, and train on the same rows.
_OUTPUTS: "weakref.WeakKeyDictionary[ExampleSet, Outputs]" = (
    weakref.WeakKeyDictionary()
)


class SimpleAlternative(Callback):
    """Adds the scores of a simple model, trained on the same rows."""

    def additional_scores(
        self, evaluated: ExampleSet, outputs: Outputs, scores: Scores
    ) -> Iterable[Score]:
        """Returns the scores; none where a task has no simple model."""
        try:
            return _scores(evaluated, outputs, scores)
        except Exception as error:
            _LOGGER.info(_FAILED, error)
            return ()


def with_outputs(
    outputs: Outputs, train: ExampleSet | None, evaluated: ExampleSet
) -> Outputs:
    """Returns outputs, and those of a simple model trained on `train`."""
    if train and evaluated not in _OUTPUTS:
        try:
            _OUTPUTS[evaluated] = _trained_outputs(train, evaluated)
        except Exception as error:
            _LOGGER.info(_FAILED, error)
            _OUTPUTS[evaluated] = {}
    return {**outputs, **_OUTPUTS.get(evaluated, {})}


def verdict(scores: Scores, metric: str) -> tuple[int, str] | None:
    """Says which is better, with the level of the log; None if unknown."""
    entries = {(s.role, s.of): s for s in scores.entries}
    simple = entries.get((Role.SIMPLE, metric))
    name = MODELS.get(simple.key.rpartition("_")[2]) if simple else None
    if simple is None or name is None or metric not in scores:
        return None
    numbers = f"{metric} {scores[metric]:.4g}, against {simple.value:.4g}"
    if test := entries.get((Role.P_VALUE, metric)):
        chance = "" if test.value < 0.05 else "may be chance, "
        numbers += f" ({chance}McNemar's p = {test.value:.2g})"
    if scores.rank(metric) > scores.rank(metric, simple.value):
        return logging.INFO, f"Better than {name}: {numbers}."
    return logging.WARNING, (
        f"No better than {name}: {numbers}. Usually a pretrained checkpoint, "
        "more steps or more rows help; or use the simple model."
    )


def _trained_outputs(train: ExampleSet, evaluated: ExampleSet) -> Outputs:
    """Returns the logits of a simple model; none where it needs no training."""
    known = train.data.simple_inputs(train.examples)
    asked = evaluated.data.simple_inputs(evaluated.examples)
    if known is None or asked is None or known.labels is None:
        return {}
    kind, labels, num_labels = known.kind, known.labels, known.num_labels
    answer = simple_models.answer_texts
    if kind == "linear":
        answer = simple_models.answer_words
    answers = answer(known.texts, labels, num_labels, asked.texts)
    _LOGGER.info(
        "To compare with, a simple model (%s) was trained on %d texts; "
        "%d were left out.",
        *(MODELS[kind], answers.num_trained),
        len(known.texts) - answers.num_trained,
    )
    logits = evaluated.data.simple_logits(evaluated.examples, answers.logits)
    return {kind: logits}


def _scores(
    evaluated: ExampleSet, outputs: Outputs, scores: Scores
) -> list[Score]:
    data, examples = evaluated.data, evaluated.examples
    kind = next((name for name in MODELS if name in outputs), "")
    if kind:
        logits: Any = outputs[kind]
    else:
        asked = data.simple_inputs(examples)
        if asked is None or asked.labels is not None:
            return []
        if len(asked.texts) > _MOST_PAIRS:
            raise ValueError(f"There are more than {_MOST_PAIRS} pairs.")
        kind = asked.kind
        logits = simple_models.character_rows(*zip(*asked.texts, strict=True))
    simple = data.simple_scores(examples, logits)
    roles = (Role.SCORE, *[Role.ERROR] * data.is_regression)
    entries = [
        Score(f"{key}_{kind}", value, Role.SIMPLE, key)
        for key, value, role, _ in simple.entries
        if role in roles and key in scores
    ]
    ours = _is_right(evaluated, outputs, scores)
    theirs = _is_right(evaluated, {"logits": logits}, simple)
    if ours is None or theirs is None:
        return entries
    gains, losses = np.sum(ours & ~theirs), np.sum(theirs & ~ours)
    p_value = classification.mcnemar(int(gains), int(losses))
    # Not of F1, or of another metric of all rows, which may say the opposite.
    test = Score(f"{_TESTED}_{kind}_p", p_value, Role.P_VALUE, _TESTED)
    return [*entries, test]


def _is_right(
    evaluated: ExampleSet, outputs: Outputs, scores: Scores
) -> np.ndarray | None:
    """Returns whether all labels of each example are right, if they are known.

    With a goal, thresholds decide, but not in the primary metric.
    """
    data = evaluated.data
    predicted = data.predictions_of(evaluated.examples, outputs, scores)
    if predicted is None or predicted.probabilities is None or data.goal:
        return None
    is_equal = predicted.labels == predicted.predictions
    is_right: np.ndarray = is_equal.reshape(len(is_equal), -1).all(axis=-1)
    return is_right
