"""Files in RACE's own form: articles, each with its questions.

Data flow: RACE/{train,dev,test}/{middle,high}/*.txt -> [this file] -> examples.
Floor: tasks. Plain Python.

The distribution has one JSON object a file; google-research/albert wants them
concatenated in `all.txt`, one a line. Both are read, also side by side.

Source: Lai et al. 2017; google-research/albert,
`race_utils.RaceProcessor.read_examples`.

Multiple-choice questions in other forms than RACE's.

Data flow: .jsonl, or MCTest's .tsv with .ans -> [this file] -> examples.
Floor: tasks. Plain Python.

Source: Richardson et al. 2013 ("MCTest") for the columns of its files.
"""

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from albert_tf import files
from albert_tf.tasks import table_files
from albert_tf.tasks.race import examples as examples_lib
from albert_tf.tasks.race.examples import LEVELS, MultipleChoiceExample
from albert_tf.text import lines

SPLITS = ("train", "dev", "test")
_KEYS = ("article", "questions", "options")


def read_split(
    data_dir: files.Path, split: str, *, levels: Sequence[str] = LEVELS
) -> list[MultipleChoiceExample]:
    """Reads one split of a folder in RACE's layout.

    Args:
        data_dir: The folder that holds `RACE/`, or that folder itself.
        split: `train`, `dev` or `test`.
        levels: Those to read, `middle` or `high` or both. One of two may be
            missing on disk.

    Returns:
        The questions: middle first, then by name of file.

    Raises:
        FileNotFoundError: There is no file for the split and levels.
        ValueError: A file is damaged, or two passages have the same id.
    """
    found: list[MultipleChoiceExample] = []
    paths = _split_files(data_dir, split, levels)
    for level in LEVELS:
        of_level = [p for p in paths if _folder_name(p) == level]
        found += _read_level(of_level, level)
    where = os.path.dirname(os.path.dirname(paths[0]))
    examples_lib.check_examples(found, where)
    return found


def _split_files(
    data_dir: files.Path, split: str, levels: Sequence[str]
) -> list[str]:
    folder = _split_folder(data_dir, split)
    found = [
        path
        for level in LEVELS
        if level in levels
        for path in _level_files(os.path.join(folder, level))
    ]
    if not found:
        wanted = " or ".join(f"{level}/*.txt" for level in levels)
        raise FileNotFoundError(
            f"There is no file of questions in {folder!r}: wanted {wanted}. "
            "Check the folder, and whether it has the level you ask for."
        )
    return found


def read_passages(path: files.Path) -> list[MultipleChoiceExample]:
    """Reads one file of passages, one JSON object a line or one in all.

    A passage whose `id` begins with `middle` or `high` has that level.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is damaged, or two passages have the same id.
    """
    found = [
        example
        for passage, where in _passages(path)
        for example in _examples(passage, where, level=_level_of_id(passage))
    ]
    examples_lib.check_examples(found, os.fspath(path))
    return found


def _split_folder(data_dir: files.Path, split: str) -> str:
    data_dir = files.check_local(data_dir)
    candidates = [
        os.path.join(data_dir, "RACE", split),
        os.path.join(data_dir, split),
    ]
    for folder in candidates:
        if os.path.isdir(folder):
            return folder
    raise FileNotFoundError(
        f"There is no folder {' or '.join(candidates)}. --data_dir must be "
        "the folder that holds RACE/, as its archive unpacks."
    )


def _level_files(folder: str) -> list[str]:
    if not os.path.isdir(folder):
        return []
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    return [p for p in paths if p.endswith(".txt") and os.path.isfile(p)]


def _folder_name(path: str) -> str:
    return os.path.basename(os.path.dirname(path))


def _read_level(
    paths: Sequence[str], level: str
) -> Iterator[MultipleChoiceExample]:
    """Yields the questions of some files; a copy of a passage is read once."""
    seen: dict[str, tuple[Mapping[str, Any], str]] = {}
    for path in paths:
        for passage, where in _passages(path, prefix=level):
            earlier, its_path = seen.setdefault(passage["id"], (passage, path))
            if earlier is passage:
                yield from _examples(passage, where, level=level)
            elif earlier != passage or its_path == path:
                # Only `all.txt` beside the files it was made of repeats one.
                raise ValueError(
                    f"{where}: the passage id {passage['id']!r} is taken by "
                    f"one of {its_path}. Give each passage its own."
                )


def _passages(
    path: files.Path, *, prefix: str = ""
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yields each passage of a file, and its place for errors."""
    name = os.fspath(path)
    whole = list(lines.read_lines(path))
    texts = [(i, text) for i, text in enumerate(whole, start=1) if text.strip()]
    if texts and not _is_json(texts[0][1]):
        # One object, written over several lines.
        texts = [(1, "\n".join(whole))]
    for number, text in texts:
        where = name if len(texts) == 1 else f"{name}, line {number}"
        passage = read_object(text, where)
        missing = [key for key in _KEYS if key not in passage]
        if missing:
            raise ValueError(
                f"{where}: a RACE passage has {', '.join(_KEYS)} and, where "
                f"known, answers. Missing: {', '.join(missing)}."
            )
        default = prefix + os.path.basename(name)
        default += f"-{number}" if len(texts) > 1 else ""
        passage["id"] = str(passage.get("id", default))
        yield passage, where


def read_object(text: str, where: str) -> dict[str, Any]:
    """Returns a JSON object.

    Args:
        text: The JSON.
        where: Its place, for the error.

    Raises:
        ValueError: It is not JSON, or not an object; or it has half of a
            surrogate pair.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{where}: not JSON ({error}).") from error
    if not isinstance(value, dict):
        raise ValueError(
            f"{where}: wanted a JSON object, like {{...}}. Received: "
            f"{type(value).__name__}."
        )
    table_files.check_characters(text, value, where)
    return value


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _level_of_id(passage: Mapping[str, Any]) -> str:
    found = [level for level in LEVELS if passage["id"].startswith(level)]
    return found[0] if found else ""


def _examples(
    passage: Mapping[str, Any], where: str, *, level: str
) -> Iterator[MultipleChoiceExample]:
    where = f"{where}, passage {passage['id']}"
    article = examples_lib.make_text(passage["article"], "article", where)
    questions, options, answers = (
        _list(passage.get(key) or [], key, where)
        for key in ("questions", "options", "answers")
    )
    answers = answers or [None] * len(questions)
    if not len(questions) == len(options) == len(answers) > 0:
        raise ValueError(
            f"{where}: wanted options and answers for each question. "
            f"Received: {len(questions)} questions, {len(options)} lists of "
            f"options, {len(answers)} answers."
        )
    for i, question in enumerate(questions):
        place = f"{where}, question {i}"
        texts = examples_lib.make_options(options[i], place)
        yield MultipleChoiceExample(
            guid=f"{passage['id']}-{i}",
            passage_id=passage["id"],
            level=level,
            article=article,
            question=examples_lib.make_text(question, "question", place),
            options=texts,
            label=examples_lib.make_label(answers[i], texts, place),
        )


def _list(value: Any, what: str, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(
            f"{where}: {what} must be a list, an entry a question. Received: "
            f"{value!r}."
        )
    return value


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
        return read_passages(path)
    else:
        found = list(_read_jsonl(path, fields or FieldNames()))
    examples_lib.check_examples(found, os.fspath(path))
    return found


def _has_passages(path: files.Path) -> bool:
    for number, text in enumerate(lines.read_lines(path), start=1):
        if text.strip():
            where = f"{os.fspath(path)}, line {number}"
            return "questions" in read_object(text, where)
    return False


def _read_jsonl(
    path: files.Path, fields: FieldNames
) -> Iterator[MultipleChoiceExample]:
    for number, text in enumerate(lines.read_lines(path), start=1):
        where = f"{os.fspath(path)}, line {number}"
        if text.strip():
            row = read_object(text, where)
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
