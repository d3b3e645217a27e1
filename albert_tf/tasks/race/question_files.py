"""Multiple-choice questions in other forms than RACE's.

Data flow: .jsonl, or MCTest's .tsv with .ans -> [this file] -> examples.
Floor: tasks. Plain Python.

Source: Richardson et al. 2013 ("MCTest") for the columns of its files.
"""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

from albert_tf import files
from albert_tf.tasks.race import examples as examples_lib
from albert_tf.tasks.race import passage_files
from albert_tf.tasks.race.examples import MultipleChoiceExample
from albert_tf.text import lines

_NUM_QUESTIONS = 4
_NUM_OPTIONS = 4
_NUM_COLUMNS = 3 + _NUM_QUESTIONS * (1 + _NUM_OPTIONS)
# What stands for a line end and a tab in a column.
_ESCAPES = {"\\newline": "\n", "\\tab": "\t"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class FieldNames:
    """Names of the fields of a line of JSON.

    Args:
        article: The text to read.
        question: The question.
        options: A list of texts.
        answer: A letter, an index from 0, or the text of an option. May be
            missing from a line, or null, where it is not known.
        id: Name of the question, unique in the file. May be missing from
            every line: the number of the line is taken.

    Raises:
        ValueError: A name is empty, or used twice.
    """

    article: str = "article"
    question: str = "question"
    options: str = "options"
    answer: str = "answer"
    id: str = "id"

    def __post_init__(self) -> None:
        names = dataclasses.astuple(self)
        if len(set(names)) < len(names) or not all(names):
            raise ValueError(
                "The fields of a question need a name each. Received: "
                f"{', '.join(map(repr, names))}."
            )


def read_questions(
    path: files.Path, *, fields: FieldNames | None = None
) -> list[MultipleChoiceExample]:
    """Reads a file of multiple-choice questions.

    A file named `.tsv` has MCTest's columns, and its answers in the `.ans`
    file beside it, if there is one. One named `.txt` holds RACE passages, as
    `all.txt`. Any other has one JSON object a line: a question, or, where a
    line has `questions`, a RACE passage.

    Args:
        path: The file.
        fields: Names of the fields of a question in JSON.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A question is not complete, or damaged, or has the id of
            another; the message names file and question.
    """
    kind = os.path.splitext(files.check_local(path))[1]
    if kind == ".tsv":
        found = list(_read_mctest(path))
    elif kind == ".txt" or _has_passages(path):
        return passage_files.read_passages(path)
    else:
        found = list(_read_jsonl(path, fields or FieldNames()))
    examples_lib.check_examples(found, os.fspath(path))
    return found


def _has_passages(path: files.Path) -> bool:
    for number, text in enumerate(lines.read_lines(path), start=1):
        if text.strip():
            where = f"{os.fspath(path)}, line {number}"
            return "questions" in passage_files.read_object(text, where)
    return False


def _read_jsonl(
    path: files.Path, fields: FieldNames
) -> Iterator[MultipleChoiceExample]:
    for number, text in enumerate(lines.read_lines(path), start=1):
        where = f"{os.fspath(path)}, line {number}"
        if text.strip():
            row = passage_files.read_object(text, where)
            yield _question(row, fields, where, str(number))


def _question(
    row: dict[str, Any], fields: FieldNames, where: str, number: str
) -> MultipleChoiceExample:
    guid = str(row.get(fields.id, number))
    where = f"{where}, question {guid}"
    for field in (fields.article, fields.question, fields.options):
        if field not in row:
            raise ValueError(
                f"{where}: there is no field {field!r}, only "
                f"{', '.join(row)}. Name the fields with --article_field, "
                "--question_field, --options_field and --answer_field."
            )
    options = examples_lib.make_options(row[fields.options], where)
    return MultipleChoiceExample(
        guid=guid,
        passage_id=guid,
        article=examples_lib.make_text(
            row[fields.article], fields.article, where
        ),
        question=examples_lib.make_text(
            row[fields.question], fields.question, where
        ),
        options=options,
        label=examples_lib.make_label(row.get(fields.answer), options, where),
    )


def _read_mctest(path: files.Path) -> Iterator[MultipleChoiceExample]:
    rows = [row.split("\t") for row in lines.read_lines(path) if row]
    answers: list[list[Any]] = [[None] * _NUM_QUESTIONS] * len(rows)
    name = f"{os.path.splitext(path)[0]}.ans"
    if os.path.exists(name):
        answers = [row.split("\t") for row in lines.read_lines(name) if row]
        if len(answers) != len(rows):
            raise ValueError(
                f"{name} has answers for {len(answers)} stories, "
                f"{os.fspath(path)} has {len(rows)} stories. Use the two files "
                "of one set."
            )
    for number, (row, letters) in enumerate(
        zip(rows, answers, strict=True), start=1
    ):
        where = f"{os.fspath(path)}, story {number}"
        if len(row) != _NUM_COLUMNS or len(letters) != _NUM_QUESTIONS:
            raise ValueError(
                f"{where}: wanted {_NUM_COLUMNS} columns and "
                f"{_NUM_QUESTIONS} answers, as MCTest has them. Received: "
                f"{len(row)} and {len(letters)}."
            )
        yield from _mctest_questions(row, letters, where)


def _mctest_questions(
    row: list[str], letters: list[Any], where: str
) -> Iterator[MultipleChoiceExample]:
    texts = [_unescape(text) for text in row]
    for i, letter in enumerate(letters):
        start = 3 + i * (1 + _NUM_OPTIONS)
        options = tuple(texts[start + 1 : start + 1 + _NUM_OPTIONS])
        yield MultipleChoiceExample(
            guid=f"{row[0]}-{i}",
            passage_id=row[0],
            article=texts[2],
            question=_without_mark(texts[start]),
            options=options,
            label=examples_lib.make_label(
                letter, options, f"{where}, question {i}"
            ),
        )


def _unescape(text: str) -> str:
    for escape, character in _ESCAPES.items():
        text = text.replace(escape, character)
    return text


def _without_mark(question: str) -> str:
    """Removes what says how many sentences the answer takes."""
    for mark in ("one: ", "multiple: "):
        question = question.removeprefix(mark)
    return question.strip()
