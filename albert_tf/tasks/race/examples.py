"""Multiple-choice questions, and what the questions of a set must agree on.

Data flow: files -> [this file] -> features, scores, predictions.
Floor: tasks. Plain Python.

Source: google-research/albert, `race_utils.RaceProcessor.read_examples`.
"""

import dataclasses
import logging
import re
import string
from collections.abc import Sequence
from typing import Any

_logger = logging.getLogger(__name__)

LEVELS = ("middle", "high")
LETTERS = string.ascii_uppercase
MIN_OPTIONS = 2
MAX_LISTED = 5
# The underscore, and the characters that normalization replaces by it.
BLANK = re.compile("[_\ufe33\ufe34\ufe4d\ufe4e\ufe4f\uff3f]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultipleChoiceExample:
    """One question about an article, with the options to choose from.

    Args:
        guid: Its id, unique in a set.
        passage_id: Id of the article, which several questions may share.
        level: `middle` or `high` for RACE, else empty.
        article: The text to read.
        question: A question, or a sentence with blanks (`_`).
        options: The possible answers, C texts.
        label: Index of the right option; None if it is not known.
    """

    guid: str
    passage_id: str
    level: str = ""
    article: str
    question: str
    options: tuple[str, ...]
    label: int | None = None

    def choice_texts(self) -> list[str]:
        """Returns the question completed by each of the options, C texts.

        The option replaces every blank; if there is none, it follows the
        question.

        >>> MultipleChoiceExample(
        ...     guid="1", passage_id="1", article="Snow is white.",
        ...     question="Snow is _ .", options=("white", "black"),
        ... ).choice_texts()
        ['Snow is white .', 'Snow is black .']
        """
        parts = BLANK.split(self.question)
        if len(parts) > 1:
            return [option.join(parts) for option in self.options]
        return [f"{self.question} {option}" for option in self.options]


def check_options(values: Any, where: str) -> tuple[str, ...]:
    """Checks and returns the options of a question.

    Raises:
        ValueError: They are not a list of 2 to 26 strings; the message begins
            with `where`.
    """
    is_list = isinstance(values, list)
    if not is_list or not MIN_OPTIONS <= len(values) <= len(LETTERS):
        got = f"{len(values)} of them" if is_list else f"{values!r}"
        raise ValueError(
            f"{where}: the options must be a list of {MIN_OPTIONS} to "
            f"{len(LETTERS)} strings. Received: {got}. Complete the question, "
            "or remove it."
        )
    for letter, option in zip(LETTERS, values, strict=False):
        check_text(option, f"option {letter}", where)
    return tuple(values)


def check_text(value: Any, what: str, where: str) -> str:
    """Checks that a value is a string, and returns it.

    Raises:
        ValueError: It is not; the message begins with `where` and `what`.
    """
    if not isinstance(value, str):
        raise ValueError(
            f"{where}: {what} must be a string. Received: {value!r}. Complete "
            "the question, or remove it."
        )
    return value


def find_label(answer: Any, options: Sequence[str], where: str) -> int | None:
    """Returns the index of the right option.

    Args:
        answer: A letter from `A`; or an index from 0; or the text of one of
            the options; None if it is not known.
        options: The options.
        where: File and question, with which the error message begins.

    Raises:
        ValueError: It means no option, or could mean several.
    """
    if answer is None:
        return None
    letters = LETTERS[: len(options)]
    found = {i for i, option in enumerate(options) if option == answer}
    if isinstance(answer, str) and len(answer.strip()) == 1:
        found |= {letters.find(answer.strip())} - {-1}
    elif type(answer) is int and 0 <= answer < len(options):
        found |= {answer}
    if len(found) != 1:
        count = "no" if not found else "more than one"
        raise ValueError(
            f"{where}: the answer must be a letter from A to {letters[-1]}, an "
            f"index from 0 to {len(options) - 1}, or the text of an option. "
            f"Received: {answer!r}, which matches {count} option. Leave out "
            "the answer if it is not known."
        )
    return found.pop()


def check_examples(
    examples: Sequence[MultipleChoiceExample], where: str
) -> None:
    """Checks what the questions of a set must agree on.

    Empty texts are kept; a warning lists the questions that have one.

    Raises:
        ValueError: The set is empty, two questions have the same `guid`, or
            not all have the same number of options; the message begins with
            `where`.
    """
    if not examples:
        raise ValueError(f"{where} has no questions.")
    seen: set[str] = set()
    first = examples[0]
    for example in examples:
        if example.guid in seen:
            raise ValueError(
                f"{where}: two questions have the id {example.guid!r}. Give "
                "each question its own id; predictions are written by id."
            )
        seen.add(example.guid)
        if len(example.options) != len(first.options):
            raise ValueError(
                f"{where}: question {example.guid} has "
                f"{len(example.options)} options, question {first.guid} has "
                f"{len(first.options)}. All questions of a set must have the "
                "same number."
            )
    empty = [
        e.guid
        for e in examples
        if not all(map(str.strip, (e.article, e.question, *e.options)))
    ]
    if empty:
        _logger.warning(
            "%s: %d of %d questions have an empty article, question or "
            "option; they are kept: %s%s",
            where,
            len(empty),
            len(examples),
            ", ".join(empty[:MAX_LISTED]),
            ", ..." if len(empty) > MAX_LISTED else "",
        )


def known_labels(examples: Sequence[MultipleChoiceExample]) -> list[int]:
    """Returns the label of every example.

    Raises:
        ValueError: The label of an example is not known.
    """
    labels = [e.label for e in examples if e.label is not None]
    unknown = [e.guid for e in examples if e.label is None]
    if unknown:
        raise ValueError(
            f"{len(unknown)} of {len(examples)} questions have no answer, for "
            f"example question {unknown[0]}. For training and scoring, "
            "every question needs one; without answers, use --do_predict."
        )
    return labels
