"""Scores answers that are spans of a text: exact match and F1.

Data flow: predicted and true answers -> [this file] -> `eval_results`.

Before answers are compared, they are lower-cased, ASCII punctuation and the
articles `a`, `an`, `the` are removed, and white space is collapsed. In scripts
without spaces, each character is a word. In Chinese, F1 counts the characters
of the longest run that prediction and answer share. Scores of a set are 0 to
100.

Source: Rajpurkar et al. 2016, section 6.1 (exact match and F1); Rajpurkar,
Jia and Liang 2018, section 6 (questions without an answer, threshold); Cui et
al. 2019, section 4, and the evaluation of CMRC 2018, `cmrc2018_evaluate.py`
version v5 (`mixed_segmentation`, `find_lcs`).
"""

import collections
import difflib
import re
import string
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.scripts import UNSPACED

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
# Ignored when answers are compared, as in CMRC's evaluation.
_CHINESE_PUNCTUATION = "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"
_WITHOUT_CHINESE_PUNCTUATION = str.maketrans("", "", _CHINESE_PUNCTUATION)
# A Chinese character; a number; a word; another character but white space.
# Differs: CMRC's evaluation divides what is not Chinese by NLTK, which also
# divides contractions (do | n't).
_SEGMENT = re.compile(
    r"[\u4e00-\u9fa5]"
    r"|\d+(?:[.,]\d+)*(?![^\W\u4e00-\u9fa5])"
    r"|[^\W\u4e00-\u9fa5]+(?:'[^\W\u4e00-\u9fa5]+)*"
    r"|[^\w\s]"
)
# Differs: SQuAD's evaluation takes text without spaces for one word.
_WORD = re.compile(rf"[{UNSPACED}]|[^ {UNSPACED}]+")
_PERCENT = 100.0


class AnswerScores(NamedTuple):
    """Scores of N predictions, 0 to 1: exact matches, and F1 of words."""

    exact: np.ndarray
    f1: np.ndarray


def normalize_answer(text: str, language: str = "en") -> str:
    """Normalizes an answer for comparison.

    >>> normalize_answer(" The  Beyoncé (singer). ")
    'beyoncé singer'
    """
    text = text.lower()
    if language == "zh":
        return text.strip().translate(_WITHOUT_CHINESE_PUNCTUATION)
    text = text.translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def segments(text: str, language: str = "en") -> list[str]:
    """Splits an answer into words; unspaced scripts, into characters.

    >>> segments("约3.5米，NBA球员", "zh")
    ['约', '3.5', '米', 'nba', '球', '员']
    """
    text = normalize_answer(text, language)
    return (_SEGMENT if language == "zh" else _WORD).findall(text)


def exact_match(
    prediction: str, answers: Sequence[str], *, language: str = "en"
) -> float:
    """Returns 1 if the prediction is one of the answers, else 0.

    >>> exact_match("the Alps", ["alps!", "mountains"])
    1.0
    """
    normalized = {normalize_answer(answer, language) for answer in answers}
    return float(normalize_answer(prediction, language) in normalized)


def f1(
    prediction: str,
    answers: Sequence[str],
    *,
    both_empty: float = 1.0,
    language: str = "en",
) -> float:
    """Returns the F1 of the prediction's words with the most similar answer.

    It is `both_empty` if neither has a word: 1 in SQuAD 2.0, 0 in SQuAD 1.1.

    >>> f1("the river Rhine", ["Rhine", "in France"])
    0.6666666666666666
    """
    words = segments(prediction, language)
    scores = [0.0]
    for answer in answers:
        true_words = segments(answer, language)
        if language == "zh":
            matcher = difflib.SequenceMatcher(
                None, words, true_words, autojunk=False
            )
            num_shared = matcher.find_longest_match().size
        else:
            counts = collections.Counter(words)
            num_shared = (counts & collections.Counter(true_words)).total()
        if num_shared:
            precision = num_shared / len(words)
            recall = num_shared / len(true_words)
            scores.append(2 * precision * recall / (precision + recall))
        elif not words and not true_words:
            scores.append(both_empty)
    return max(scores)


def score_answers(
    predictions: Sequence[str],
    answers: Sequence[Sequence[str]],
    *,
    are_optional: bool = False,
    language: str = "en",
) -> AnswerScores:
    """Scores answers by the rules of SQuAD 1.1; if optional, of SQuAD 2.0.

    In 2.0, the prediction "" means that a question has no answer, and true
    answers that normalize to "" are ignored. `language` is `en` or `zh`.
    """
    if are_optional:
        answers = [
            [answer for answer in true if normalize_answer(answer, language)]
            or [""]
            for true in answers
        ]
    pairs = list(zip(predictions, answers, strict=True))
    exact = [exact_match(*pair, language=language) for pair in pairs]
    f1_scores = [
        f1(*pair, both_empty=float(are_optional), language=language)
        for pair in pairs
    ]
    return AnswerScores(exact=np.array(exact), f1=np.array(f1_scores))


def summarize(
    scores: AnswerScores, has_answer: np.ndarray | None = None
) -> dict[str, float]:
    """Averages the scores of a set: in SQuAD 1.1, `exact_match` and `f1`.

    In 2.0, where `has_answer`, bool `[N]`, is passed: `exact` and `f1`, also of
    the questions with an answer (`HasAns_exact`, `HasAns_f1`) and of the
    questions without (`NoAns_exact`, `NoAns_f1`), if there are any.
    """
    exact, f1_score = percentage(scores.exact), percentage(scores.f1)
    if has_answer is None:
        return {"exact_match": exact, "f1": f1_score}
    summary = {"exact": exact, "f1": f1_score}
    for name, chosen in (("HasAns", has_answer), ("NoAns", ~has_answer)):
        if chosen.any():
            summary[f"{name}_exact"] = percentage(scores.exact[chosen])
            summary[f"{name}_f1"] = percentage(scores.f1[chosen])
    return summary


def threshold_curve(
    scores: np.ndarray, has_answer: np.ndarray, null_odds: np.ndarray
) -> np.ndarray:
    """Returns thresholds of the null odds, and the score of a set with each.

    Args:
        scores: Float `[N]`, 0 to 1: of the predictions without a threshold.
        has_answer: Bool `[N]`.
        null_odds: Float `[N]`, high if there seems to be no answer.

    Returns:
        Float64 `[T, 2]`: a threshold, and the mean score, 0 to 100. Thresholds
        increase: the lowest of the odds, the middle between each two
        neighbouring odds, and one more than the highest.
    """
    order = np.argsort(null_odds, kind="stable")
    odds = null_odds[order].astype(np.float64)
    # With each next threshold one more question keeps its answer.
    gains = (scores - ~has_answer)[order]
    totals = np.cumsum([np.count_nonzero(~has_answer), *gains])
    # Differs: in the reference, the threshold equals the odds of the last
    # question that keeps its answer in the search, but applying it removes
    # that answer. Here it is halfway to the next odds. Questions with equal
    # odds keep or lose their answers together.
    thresholds = np.array([odds[0], *(odds[:-1] + odds[1:]) / 2, odds[-1] + 1])
    is_cut = np.array([True, *(odds[:-1] < odds[1:]), True])
    percentages = _PERCENT * totals[is_cut] / len(odds)
    return np.stack([thresholds[is_cut], percentages], axis=1)


def percentage(scores: np.ndarray) -> float:
    """Returns the mean, times 100."""
    return float(_PERCENT * np.mean(scores))
