"""What a question asks for: who, what, when, ..., or how a sentence goes on.

Data flow: examples, predicted options -> [this file] -> report.
Floor: tasks. Plain Python, NumPy.

The rule is ours and goes by words alone; RACE does not label its questions.
"""

import re
from collections.abc import Sequence

import numpy as np

from albert_tf.tasks.race import examples as examples_lib
from albert_tf.tasks.race.examples import MultipleChoiceExample

QUESTION_TYPES = (
    "who",
    "what",
    "when",
    "where",
    "why",
    "how",
    "cloze",
    "other",
)

_TYPE_OF_WORD = {
    **{name: name for name in ("who", "what", "when", "where", "why", "how")},
    "whom": "who",
    "whose": "who",
    "which": "other",
}
_WORD = re.compile(r"[^\W\d_]+")
_QUESTION_MARK = re.compile(r"[?\uff1f]")


def question_type(question: str) -> str:
    """Returns one of `QUESTION_TYPES`.

    A text with a blank, or without question mark and question word in front,
    is a sentence to be completed. Else the first question word decides.

    >>> question_type("According to the text, whose dog was lost?")
    'who'
    >>> question_type("We can learn from the story that _ .")
    'cloze'
    """
    words = [word.lower() for word in _WORD.findall(question)]
    asked = [_TYPE_OF_WORD[word] for word in words if word in _TYPE_OF_WORD]
    if examples_lib.BLANK.search(question):
        return "cloze"
    if not _QUESTION_MARK.search(question) and (
        not words or words[0] not in _TYPE_OF_WORD
    ):
        return "cloze"
    return asked[0] if asked else "other"


def accuracy_by_question_type(
    examples: Sequence[MultipleChoiceExample], logits: np.ndarray
) -> dict[str, dict[str, float]]:
    """Returns how many questions of each type are answered rightly.

    Args:
        examples: The questions, N, all with a label.
        logits: Float `[N, C]`, or anything with the same order of options.

    Returns:
        By question type, in the order of `QUESTION_TYPES` and without those
        that do not occur: `num_questions`, `num_correct` and `accuracy`.

    Raises:
        ValueError: A question has no label.
    """
    labels = np.array(examples_lib.known_labels(examples))
    is_correct = np.argmax(logits, axis=-1) == labels
    types = np.array([question_type(e.question) for e in examples])
    result = {}
    for name in QUESTION_TYPES:
        chosen = is_correct[types == name]
        if chosen.size:
            result[name] = {
                "num_questions": int(chosen.size),
                "num_correct": int(chosen.sum()),
                "accuracy": float(chosen.mean()),
            }
    return result
