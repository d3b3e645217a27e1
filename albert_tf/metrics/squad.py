"""Scores of answers that are spans of a text: exact match and F1.

Data flow: predicted and true answers -> [this file] -> `eval_results`.
Floor: metrics. NumPy.

Before they are compared, answers lose case, ASCII punctuation, the articles
`a`, `an`, `the`, and white space but for one space between words. A prediction
has the score of the true answer that it fits best. Scores of a set are 0 to
100.

Source: Rajpurkar et al. 2016, section 6.1 (exact match and F1); Rajpurkar,
Jia and Liang 2018, section 6 (questions without an answer, threshold).
"""

import collections
import dataclasses
import re
import string
from collections.abc import Sequence

import numpy as np

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_PERCENT = 100.0


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AnswerScores:
    """How well each prediction of a set fits, 0 to 1.

    Args:
        exact: Float64 `[N]`, 1 for the words of a true answer, else 0.
        f1: Float64 `[N]`, harmonic mean of the shares of shared words.
    """

    exact: np.ndarray
    f1: np.ndarray


def normalize_answer(text: str) -> str:
    """Returns what counts of an answer.

    >>> normalize_answer(" The  Beyoncé (singer). ")
    'beyoncé singer'
    """
    text = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """Returns 1 if the prediction is one of the answers, else 0.

    >>> exact_match("the Alps", ["alps!", "mountains"])
    1.0
    """
    wanted = {normalize_answer(answer) for answer in answers}
    return float(normalize_answer(prediction) in wanted)


def f1(
    prediction: str, answers: Sequence[str], *, both_empty: float = 1.0
) -> float:
    """Returns the largest F1 of the words of prediction and one answer.

    >>> f1("the river Rhine", ["Rhine", "in France"])
    0.6666666666666666

    Args:
        prediction: The predicted answer.
        answers: The true ones; "" stands for that there is none.
        both_empty: The score where no words remain on either side: 1 in
            version 2.0 of SQuAD, 0 in version 1.1.
    """
    words = normalize_answer(prediction).split()
    return max(
        (_f1(words, normalize_answer(a).split(), both_empty) for a in answers),
        default=0.0,
    )


def _f1(words: list[str], wanted: list[str], both_empty: float) -> float:
    if not words and not wanted:
        return both_empty
    shared = (collections.Counter(words) & collections.Counter(wanted)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(words), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


def score_answers(
    predictions: Sequence[str], answers: Sequence[Sequence[str]]
) -> AnswerScores:
    """Scores answers by the rules of version 1.1.

    Args:
        predictions: A predicted answer for each question, N.
        answers: The true answers of each question, at least one each.

    Raises:
        ValueError: See `score_optional_answers`.
    """
    _check_sizes(predictions, answers)
    return _score(predictions, answers, both_empty=0.0)


def score_optional_answers(
    predictions: Sequence[str], answers: Sequence[Sequence[str]]
) -> AnswerScores:
    """Scores answers by the rules of version 2.0.

    Args:
        predictions: For each question, N, a predicted answer, or "" for that
            there is none.
        answers: The true answers of each question; none if there is none.
            Those of which no words remain do not count.

    Raises:
        ValueError: There is no question, or not one list of answers for each.
    """
    _check_sizes(predictions, answers)
    wanted = [
        [answer for answer in own if normalize_answer(answer)] or [""]
        for own in answers
    ]
    return _score(predictions, wanted, both_empty=1.0)


def _score(
    predictions: Sequence[str],
    answers: Sequence[Sequence[str]],
    *,
    both_empty: float,
) -> AnswerScores:
    pairs = list(zip(predictions, answers, strict=True))
    return AnswerScores(
        exact=np.array([exact_match(p, own) for p, own in pairs]),
        f1=np.array([f1(p, own, both_empty=both_empty) for p, own in pairs]),
    )


def summarize(scores: AnswerScores) -> dict[str, float]:
    """Returns `exact_match` and `f1` of a set, as version 1.1 has them."""
    return {
        "exact_match": _percentage(scores.exact),
        "f1": _percentage(scores.f1),
    }


def summarize_optional(
    scores: AnswerScores, has_answer: np.ndarray
) -> dict[str, float]:
    """Returns the scores of a set, as version 2.0 has them.

    Args:
        scores: Of the final predictions, N.
        has_answer: Bool `[N]`, whether a question has an answer.

    Returns:
        `exact` and `f1`; the same of the questions with an answer
        (`HasAns_exact`, `HasAns_f1`) and of those without (`NoAns_...`),
        where there are any.
    """
    found = {"exact": _percentage(scores.exact), "f1": _percentage(scores.f1)}
    for name, chosen in (("HasAns", has_answer), ("NoAns", ~has_answer)):
        if chosen.any():
            found[f"{name}_exact"] = _percentage(scores.exact[chosen])
            found[f"{name}_f1"] = _percentage(scores.f1[chosen])
    return found


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ThresholdCurve:
    """The score of a set for every threshold that makes a difference.

    Args:
        thresholds: Float64 `[T]`, rising: below the odds of all, between each
            two, above all.
        scores: Float64 `[T]`, 0 to 100.
    """

    thresholds: np.ndarray
    scores: np.ndarray

    @property
    def best(self) -> float:
        """The lowest of the thresholds with the highest score."""
        return float(self.thresholds[np.argmax(self.scores)])


def threshold_curve(
    scores: np.ndarray, has_answer: np.ndarray, null_odds: np.ndarray
) -> ThresholdCurve:
    """Tries all thresholds.

    Args:
        scores: Float `[N]`, `AnswerScores.exact` or `f1` of the predictions
            before a threshold is applied.
        has_answer: Bool `[N]`, whether a question has an answer.
        null_odds: Float `[N]`, high where there seems to be none.

    Raises:
        ValueError: There is no question.
    """
    _check_sizes(scores.tolist(), has_answer.tolist())
    order = np.argsort(null_odds, kind="stable")
    odds = null_odds[order].astype(np.float64)
    # With each threshold one more question keeps its answer.
    gains = (scores - ~has_answer)[order]
    totals = np.cumsum([np.count_nonzero(~has_answer), *gains])
    # Differs: the reference's threshold is the odds of the last question that
    # the search lets answer, and is then applied such that this question's
    # answer is withdrawn. Here it lies halfway to the next one. Questions with
    # the same odds are answered together, or not.
    thresholds = np.array([odds[0], *(odds[:-1] + odds[1:]) / 2, odds[-1] + 1])
    is_cut = np.array([True, *(odds[:-1] < odds[1:]), True])
    return ThresholdCurve(
        thresholds=thresholds[is_cut],
        scores=_PERCENT * totals[is_cut] / len(odds),
    )


def _percentage(values: np.ndarray) -> float:
    return float(_PERCENT * np.mean(values))


def _check_sizes(predictions: Sequence, answers: Sequence) -> None:
    if not len(predictions) or len(predictions) != len(answers):
        raise ValueError(
            "There must be at least one question, and predictions and answers "
            f"for all of them. Received: {len(predictions)} and "
            f"{len(answers)}."
        )
