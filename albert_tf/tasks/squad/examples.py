"""Questions, contexts and answers, as SQuAD's files have them.

Data flow: SQuAD JSON -> [this file] -> windows, features, scores.
Source: Rajpurkar et al. 2016, 2018; google-research/albert, `squad_utils`.
"""

import contextlib
import dataclasses
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import checks, files
from albert_tf.tasks import example_files
from albert_tf.tasks.example_files import RowsInMemory, Source

_LOGGER = logging.getLogger(__name__)


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


def answer_texts(examples: Sequence[SquadExample]) -> list[list[str]]:
    """Returns the texts of the true answers of each example."""
    return [[a.text for a in example.answers or ()] for example in examples]


def has_answer(examples: Sequence[SquadExample]) -> np.ndarray:
    """Returns, bool `[N]`, which examples have an answer."""
    return np.array([bool(example.answers) for example in examples], bool)


def read_examples(path: Source) -> list[SquadExample]:
    """Reads questions with their contexts; ids must differ.

    A file is JSON in the format of SQuAD 1.1 or 2.0. Its `data`, JSON lines
    (.jsonl) and rows in memory may also be rows of `id`, `question`, `context`,
    `answers` and `is_impossible`, as Hugging Face's data sets have them.

    A question has no answer if `is_impossible` is true; or if that is missing,
    and its answers are an empty list, or empty texts, and others have answers.
    Answers that are not in their place get the nearest one with their text.
    """
    examples: list[SquadExample] = []
    unmarked, moved = [], []
    try:
        for paragraph, row in _paragraphs_and_questions(path):
            example = _example(row, _value(paragraph, "context", str))
            if example.is_impossible and row.get("is_impossible") is None:
                unmarked.append(len(examples))
            if answers := example.answers:
                places = tuple(_find(a, example.context) for a in answers)
                if places != answers:
                    moved.append(example.guid)
                    example = dataclasses.replace(example, answers=places)
            examples.append(example)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is not in SQuAD's format, after {len(examples)} "
            f"questions. {type(error).__name__}: {error}"
        ) from error
    example_files.check_ids([example.guid for example in examples], str(path))
    if not any(example.answers for example in examples):
        for i in unmarked:
            examples[i] = dataclasses.replace(examples[i], answers=None)
    if moved:
        _LOGGER.warning(
            "%s: answers of %d questions are not at their `answer_start`; the "
            "nearest place with their text is used: %s.",
            path,
            len(moved),
            checks.listed(moved, at_most=3),
        )
    return examples


def _paragraphs_and_questions(
    path: Source,
) -> Iterator[tuple[files.JsonObject, files.JsonObject]]:
    if isinstance(path, RowsInMemory) or str(path).endswith(".jsonl"):
        for line, row in example_files.read_objects(path):
            yield row, {"id": str(line)} | row
        return
    for article in files.read_json(path)["data"]:
        for paragraph in article.get("paragraphs", [article]):
            for row in paragraph.get("qas", [paragraph]):
                yield paragraph, row


def _example(row: files.JsonObject, context: str) -> SquadExample:
    answer_rows = row.get("answers")
    if isinstance(answer_rows, Mapping):  # of lists
        columns = zip(*answer_rows.values(), strict=True)
        answer_rows = [
            dict(zip(answer_rows, cells, strict=True)) for cells in columns
        ]
    answers = tuple(
        Answer(text=text, start=_value(answer, "answer_start", int))
        for answer in answer_rows or ()
        if (text := _value(answer, "text", str)).strip()
    )
    marked = row.get("is_impossible")
    is_impossible = marked is not None and _value(row, "is_impossible", bool)
    if answers and is_impossible:
        raise ValueError(
            f"question {row['id']} is marked as impossible to answer, but has "
            "an answer"
        )
    is_known = (
        answer_rows
        or is_impossible
        or (answer_rows is not None and marked is None)
    )
    return SquadExample(
        guid=_value(row, "id", str),
        question=_value(row, "question", str),
        context=context,
        answers=answers if is_known else None,
    )


def _value(values: files.JsonObject, key: str, kind: type) -> Any:
    value = values[key]
    if kind is str and type(value) is int:
        value = str(value)
    elif kind is not str:
        with contextlib.suppress(ValueError):  # Texts such as "31", "false".
            value = json.loads(str(value).lower())
        if kind is bool and value in (0, 1):
            value = bool(value)
    if type(value) is not kind:
        raise TypeError(f"{key!r} must be a {kind.__name__}, not {value!r}")
    return value


def _find(answer: Answer, context: str) -> Answer:
    """Returns the nearest place with the text of an answer; itself if none."""
    place = example_files.find_text(answer.text, context, answer.start)
    if place is None:
        return answer
    start, end = place
    return Answer(text=context[start:end], start=start)
