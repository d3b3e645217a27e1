"""SQuAD's sections of a run's report: the null threshold, the worst errors.

Data flow: predictions for an evaluation set -> [this file] -> report.html.
Floor: tasks. NumPy.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.metrics import squad as metrics
from albert_tf.tasks.squad import examples as examples_lib
from albert_tf.tasks.squad.examples import SquadExample
from albert_tf.tasks.squad.predictions import QuestionPrediction

MAX_ERRORS = 20
MAX_POINTS = 200
_NONE = "(none)"


def threshold_chart(
    examples: Sequence[SquadExample], found: Sequence[QuestionPrediction]
) -> dict[str, Any]:
    """Returns a chart of F1 and exact match by null threshold.

    Args:
        examples: Questions of version 2.0.
        found: Their predictions before a threshold is applied.
    """
    scores = metrics.score_optional_answers(
        [one.text for one in found], examples_lib.answer_texts(examples)
    )
    has_answer = examples_lib.has_answer(examples)
    odds = np.array([one.null_odds for one in found])
    curves = {}
    for name, values in (("F1", scores.f1), ("exact", scores.exact)):
        curve = metrics.threshold_curve(values, has_answer, odds)
        chosen = np.unique(
            np.linspace(0, len(curve.scores) - 1, MAX_POINTS).astype(int)
        )
        points = curve.thresholds[chosen], curve.scores[chosen]
        curves[name] = list(zip(*(p.tolist() for p in points), strict=True))
    return {
        "title": "Scores by null threshold",
        "unit": "score",
        "curves": curves,
        "x_label": "null threshold",
    }


def worst_errors(
    examples: Sequence[SquadExample],
    found: Sequence[QuestionPrediction],
    texts: Sequence[str],
) -> dict[str, Any]:
    """Returns a table of the wrong answers with the highest probabilities.

    Args:
        examples: The questions.
        found: Their predictions before a threshold is applied.
        texts: The final answers.
    """
    answers = examples_lib.answer_texts(examples)
    wrong = [
        (one.spans[0].probability, example, own, text)
        for example, one, own, text in zip(
            examples, found, answers, texts, strict=True
        )
        if not metrics.f1(text, own or [""])
    ]
    wrong.sort(key=lambda row: -row[0])
    return {
        "title": f"The worst of {len(wrong)} answers without a right word",
        "header": ["id", "question", "answer", "prediction", "probability"],
        "rows": [
            [
                example.guid,
                example.question,
                own[0] if own else _NONE,
                text or _NONE,
                f"{probability:.4f}",
            ]
            for probability, example, own, text in wrong[:MAX_ERRORS]
        ],
    }
