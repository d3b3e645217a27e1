"""Questions, contexts and answers, as SQuAD's files have them.

Data flow: SQuAD JSON -> [this file] -> windows, features, scores.

Source: Rajpurkar et al. 2016, 2018, for the format; google-research/albert,
`squad_utils.read_squad_examples`.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import files
from albert_tf.tasks import table_files

_BYTE_ORDER_MARK = "\ufeff"
_TYPE_NAMES = {str: "a string", list: "a list", int: "a whole number"}


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
    examples: Sequence[SquadExample], *, version_2_with_negative: bool
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
    examples: Sequence[SquadExample], *, version_2_with_negative: bool
) -> None:
    """Checks that examples can be trained on and scored.

    Raises:
        ValueError: The answers of a question are not known; or a question of
            version 1.1 has none.
    """
    unknown = [e.guid for e in examples if e.answers is None]
    if unknown:
        raise ValueError(
            f"{len(unknown)} of {len(examples)} questions have no answers, "
            f"for example question {unknown[0]}. For training and scoring, "
            "every question needs an answer, or must be marked with "
            "`is_impossible`; without answers, use --do_predict."
        )
    impossible = [e.guid for e in examples if e.is_impossible]
    if impossible and not version_2_with_negative:
        raise ValueError(
            f"{len(impossible)} of {len(examples)} questions are marked as "
            f"impossible to answer, for example question {impossible[0]}. "
            "Pass --version_2_with_negative, or leave these questions out."
        )


def read_examples(path: files.Path) -> list[SquadExample]:
    """Reads a file in the format of SQuAD 1.1 or 2.0.

    The answers of a question are not known if `answers` is missing, or if it
    is empty and `is_impossible` is not true.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: It is not JSON in this format, two questions have the same
            id, or an answer does not lie in its context. The message names
            file and question.
    """
    name = files.check_local(path)
    text = files.read_text(name).removeprefix(_BYTE_ORDER_MARK)
    try:
        content = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(
            f"{name} is not JSON ({error}). Download the file again."
        ) from error
    table_files.check_characters(text, content, name)
    examples: dict[str, SquadExample] = {}
    for place, context, row in _questions(content, name):
        guid = _value(row, "id", str, place)
        where = f"{place}, question {guid}"
        example = SquadExample(
            guid=guid,
            question=_value(row, "question", str, where),
            context=context,
            answers=_answers(row, context, where),
        )
        if guid in examples:
            raise ValueError(
                f"{place}: another question has the id {guid!r}. Give each "
                "question its own id; predictions are written by id."
            )
        examples[guid] = example
    if not examples:
        raise ValueError(f"{name} has no questions.")
    return list(examples.values())


def _questions(
    content: Any, name: str
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yields for each question its place for errors, its context, its row."""
    for article in _rows(content, "data", name):
        title = article.get("title")
        inside = f"{name}, article {title!r}" if title else name
        paragraphs = _rows(article, "paragraphs", inside)
        for number, paragraph in enumerate(paragraphs, start=1):
            where = f"{inside}, paragraph {number}"
            context = _value(paragraph, "context", str, where)
            for row in _rows(paragraph, "qas", where):
                yield where, context, row


def _answers(
    row: Mapping[str, Any], context: str, where: str
) -> tuple[Answer, ...] | None:
    found: tuple[Answer, ...] = ()
    if row.get("answers") is not None:
        found = tuple(
            _answer(answer, context, where)
            for answer in _rows(row, "answers", where)
        )
    is_impossible = row.get("is_impossible", False)
    if type(is_impossible) is not bool:
        raise ValueError(
            f"{where}: `is_impossible` must be true or false. Received: "
            f"{is_impossible!r}."
        )
    if is_impossible and found:
        raise ValueError(
            f"{where}: the question is marked as impossible to answer, but "
            f"has {len(found)} answers. Remove one or the other."
        )
    return found if found or is_impossible else None


def _answer(row: Mapping[str, Any], context: str, where: str) -> Answer:
    text = _value(row, "text", str, where)
    start = _value(row, "answer_start", int, where)
    if not 0 <= start <= start + len(text) <= len(context):
        raise ValueError(
            f"{where}: the answer {text!r} must lie in the context, which has "
            f"{len(context)} characters. Received: answer_start={start}."
        )
    return Answer(text=text, start=start)


def _rows(content: Any, name: str, where: str) -> list[Mapping[str, Any]]:
    """Returns a field that must be a list of objects."""
    rows = _value(content, name, list, where)
    for row in rows:
        _check_object(row, f"{where}: each entry of `{name}`")
    return rows


def _value(content: Any, name: str, kind: type, where: str) -> Any:
    """Returns a field that must be of a type."""
    _check_object(content, where)
    if name not in content:
        raise ValueError(
            f"{where}: the field `{name}` is missing; found "
            f"{', '.join(map(repr, content)) or 'no field'}. Convert the file "
            "to SQuAD's format."
        )
    value = content[name]
    if type(value) is not kind:
        raise ValueError(
            f"{where}: `{name}` must be {_TYPE_NAMES[kind]}. Received: "
            f"{_shown(value)}."
        )
    return value


def _check_object(content: Any, where: str) -> None:
    if not isinstance(content, dict):
        raise ValueError(
            f"{where} must be a JSON object. Received: {_shown(content)}. "
            "Convert the file to SQuAD's format."
        )


def _shown(value: Any) -> str:
    return json.dumps(value)[:60]
