"""Compares answers in Chinese: exact match and F1 of characters.

Data flow: predicted and true answer -> [this file] -> `metrics.squad`.

Chinese has no spaces between words, so that F1 counts characters: of the
longest run that prediction and answer share. Texts in other scripts are
divided into words.

Source: Cui et al. 2019, "A Span-Extraction Dataset for Chinese Machine Reading
Comprehension", section 4, and the evaluation of CMRC 2018,
`cmrc2018_evaluate.py` version v5 (`mixed_segmentation`, `find_lcs`).
"""

import difflib
import re

# Ignored when answers are compared, as in CMRC's evaluation.
_PUNCTUATION = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_WITHOUT_PUNCTUATION = str.maketrans("", "", "".join(_PUNCTUATION))
# A Chinese character; a number; a word; another character but white space.
# Differs: CMRC's evaluation divides what is not Chinese by NLTK, which also
# divides contractions (do | n't).
_SEGMENT = re.compile(
    r"[\u4e00-\u9fa5]"
    r"|\d+(?:[.,]\d+)*(?![^\W\u4e00-\u9fa5])"
    r"|[^\W\u4e00-\u9fa5]+(?:'[^\W\u4e00-\u9fa5]+)*"
    r"|[^\w\s]"
)


def normalize_answer(text: str) -> str:
    """Returns an answer in the form that is compared.

    >>> normalize_answer("《红楼梦》 ")
    '红楼梦'
    """
    return text.lower().strip().translate(_WITHOUT_PUNCTUATION)


def segments(text: str) -> list[str]:
    """Returns the characters and words of an answer.

    >>> segments("约3.5米，NBA球员")
    ['约', '3.5', '米', 'nba', '球', '员']
    """
    return _SEGMENT.findall(normalize_answer(text))


def overlap(words: list[str], wanted: list[str]) -> int:
    """Returns the length of the longest run that both have.

    >>> overlap(["a", "b", "c"], ["b", "c", "a"])
    2
    """
    matcher = difflib.SequenceMatcher(None, words, wanted, autojunk=False)
    return matcher.find_longest_match().size
