"""Questions, contexts and answers, as SQuAD's files have them.

Data flow: SQuAD JSON -> [this file] -> windows, features, scores.
Source: Rajpurkar et al. 2016, 2018; google-research/albert, `squad_utils`.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import checks, files
from albert_tf.tasks import example_files
from albert_tf.tasks.example_files import RowsInMemory, Source


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """A true answer; `start` is its first character in the context."""

    text: str
    start: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadExample:
    """One question, about a context that may hold its answer.

    `guid` is unique in a file. `answers` are the true ones: empty if the
    context holds none, None if they are not known.
    """

    guid: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None = None

    @property
    def is_impossible(self) -> bool:
        """Whether the context is known not to hold the answer."""
        return self.answers == ()


def are_answers_known(
    examples: Sequence[SquadExample], version_2_with_negative: bool
) -> bool:
    """Returns whether all examples can be scored; see `check_answers`."""
    return all(
        example.answers or (version_2_with_negative and example.is_impossible)
        for example in examples
    )


def answer_texts(examples: Sequence[SquadExample]) -> list[list[str]]:
    """Returns the texts of the true answers of each example."""
    return [[a.text for a in example.answers or ()] for example in examples]


def has_answer(examples: Sequence[SquadExample]) -> np.ndarray:
    """Returns, bool `[N]`, which examples have an answer."""
    return np.array([bool(example.answers) for example in examples], bool)


def check_answers(
    examples: Sequence[SquadExample], version_2_with_negative: bool
) -> None:
    """Checks that all answers are known; in version 1.1, that there are any."""
    unknown = [e.guid for e in examples if e.answers is None]
    if unknown:
        raise ValueError(
            f"{len(unknown)} of {len(examples)} questions have neither an "
            f"answer nor `is_impossible`: {checks.listed(unknown)}. Without "
            "answers, use --do_predict."
        )
    impossible = [e.guid for e in examples if e.is_impossible]
    if impossible and not version_2_with_negative:
        raise ValueError(
            f"{len(impossible)} of {len(examples)} questions have no answer: "
            f"{checks.listed(impossible)}. Pass --version_2_with_negative, or "
            "leave these questions out."
        )


def read_examples(path: Source) -> list[SquadExample]:
    """Reads a file in the format of SQuAD 1.1 or 2.0; ids must differ.

    The answers of a question are not known if there are no `answers` and
    `is_impossible` is not true. Rows in memory have `question`, `context`,
    `answers` and `is_impossible`.
    """
    examples: list[SquadExample] = []
    try:
        examples.extend(
            _example(row, context=_value(paragraph, "context", str))
            for paragraph, row in _paragraphs_and_questions(path)
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is not in SQuAD's format, after {len(examples)} "
            f"questions. {type(error).__name__}: {error}"
        ) from error
    example_files.check_ids([example.guid for example in examples], str(path))
    return examples


def _paragraphs_and_questions(
    path: Source,
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    if isinstance(path, RowsInMemory):
        for line, row in example_files.read_objects(path):
            yield row, {"id": str(line)} | row
        return
    for article in files.read_json(path)["data"]:
        for paragraph in article["paragraphs"]:
            for row in paragraph["qas"]:
                yield paragraph, row


def _example(row: Mapping[str, Any], *, context: str) -> SquadExample:
    answers = tuple(
        Answer(
            text=_value(answer, "text", str),
            start=_value(answer, "answer_start", int),
        )
        for answer in row.get("answers") or ()
    )
    row = {"is_impossible": False, **row}
    is_impossible = _value(row, "is_impossible", bool)
    if answers and is_impossible:
        raise ValueError(
            f"question {row['id']} is marked as impossible to answer, but has "
            "an answer"
        )
    return SquadExample(
        guid=_value(row, "id", str),
        question=_value(row, "question", str),
        context=context,
        answers=answers if answers or is_impossible else None,
    )


def _value(values: Mapping[str, Any], key: str, kind: type) -> Any:
    if type(values[key]) is not kind:
        raise TypeError(
            f"{key!r} must be a {kind.__name__}, not {values[key]!r}"
        )
    return values[key]
