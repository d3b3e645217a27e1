"""Files of multiple-choice questions: RACE, JSON lines, MCTest.

Data flow: .txt, .jsonl, or .tsv with .ans -> [this file] -> examples.

RACE's archive has one JSON object per file: a passage with its questions;
google-research/albert wants these concatenated in `all.txt`, one per line.
Both are read, also from the same folder.

Source: Lai et al. 2017 (RACE); Richardson et al. 2013 (MCTest);
google-research/albert, `race_utils.RaceProcessor.read_examples`.
"""

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from albert_tf import files
from albert_tf.settings import setting
from albert_tf.tasks import table_files
from albert_tf.tasks.race import examples as examples_lib
from albert_tf.tasks.race.examples import (
    LETTERS,
    LEVELS,
    MIN_OPTIONS,
    MultipleChoiceExample,
)
from albert_tf.text import text_lines

_LISTS = ("questions", "options")
_PASSAGE_KEYS = ("article", *_LISTS)

# MCTest: columns of a story, and what stands for white space in them.
_NUM_QUESTIONS = 4
_NUM_OPTIONS = 4
_NUM_COLUMNS = 3 + _NUM_QUESTIONS * (1 + _NUM_OPTIONS)
_ESCAPES = {"\\newline": "\n", "\\tab": "\t"}
# They say how many sentences the answer takes.
_MARKS = ("one: ", "multiple: ")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FieldNames:
    """Names of the fields of a question in JSON.

    The options are a list of texts. The answer is a letter, an index from 0,
    or the text of an option; it may be missing, or null, if it is not known.
    Where the id is missing, the line number is the id.

    Raises:
        ValueError: A name is empty, or used twice.
    """

    article_field: str = setting(
        "article", "JSON lines: field that holds the article."
    )
    question_field: str = setting(
        "question", "JSON lines: field that holds the question."
    )
    options_field: str = setting(
        "options", "JSON lines: field that holds the options."
    )
    answer_field: str = setting(
        "answer", "JSON lines: field that holds the answer."
    )
    id_field: str = setting("id", "JSON lines: field of the id.")

    def __post_init__(self) -> None:
        names = (
            self.article_field,
            self.question_field,
            self.options_field,
            self.answer_field,
            self.id_field,
        )
        if len(set(names)) < len(names) or not all(names):
            raise ValueError(
                "Each field of a question must have its own name. Received: "
                f"{', '.join(map(repr, names))}."
            )


def read_split(
    data_dir: files.Path, split: str, *, levels: Sequence[str] = LEVELS
) -> list[MultipleChoiceExample]:
    """Reads one split of a folder in RACE's layout.

    Args:
        data_dir: The folder that holds `RACE/`, or `RACE/` itself.
        split: `train`, `dev` or `test`.
        levels: One of two may be missing on disk.

    Returns:
        The questions: first those of `middle`, each level by file name.

    Raises:
        FileNotFoundError: There is no file of this split and these levels.
        ValueError: A file is damaged, or two passages have the same id.
    """
    folder = _split_folder(data_dir, split)
    paths = {
        level: _passage_files(os.path.join(folder, level))
        for level in LEVELS
        if level in levels
    }
    if not any(paths.values()):
        wanted = " or ".join(f"{level}/*.txt" for level in levels)
        raise FileNotFoundError(
            f"There is no file {wanted} in {folder!r}. Check the folder, and "
            "whether it has the level you ask for."
        )
    found = [
        example
        for level, of_level in paths.items()
        for example in _read_level(of_level, level)
    ]
    examples_lib.check_examples(found, folder)
    return found


def read_questions(
    path: files.Path, *, fields: FieldNames | None = None
) -> list[MultipleChoiceExample]:
    """Reads a file of multiple-choice questions.

    A `.tsv` file has MCTest's columns, and its answers in the `.ans` file
    beside it, if there is one. A `.txt` file has RACE passages; a passage
    whose id begins with `middle` or `high` has that level. Any other file has
    one JSON object per line: questions, or, if the first line has
    `questions`, RACE passages.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: A question is incomplete or damaged, or has the id of
            another one; the message names file and question.
    """
    kind = os.path.splitext(files.check_local(path))[1]
    if kind == ".tsv":
        found = list(_read_mctest(path))
    elif kind == ".txt" or _has_passages(path):
        found = [
            example
            for passage, where in _passages(path)
            for example in _examples(passage, where)
        ]
    else:
        found = list(_read_jsonl(path, fields or FieldNames()))
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


def _passage_files(folder: str) -> list[str]:
    if not os.path.isdir(folder):
        return []
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    return [p for p in paths if p.endswith(".txt") and os.path.isfile(p)]


def _read_level(
    paths: Sequence[str], level: str
) -> Iterator[MultipleChoiceExample]:
    """Yields the questions of files; skips passages that were read before."""
    seen: dict[str, tuple[Mapping[str, Any], str]] = {}
    for path in paths:
        for passage, where in _passages(path, prefix=level):
            earlier, its_path = seen.setdefault(passage["id"], (passage, path))
            if earlier is passage:
                yield from _examples(passage, where, level)
            elif earlier != passage or its_path == path:
                # Only `all.txt` beside the files it was made of repeats one.
                raise ValueError(
                    f"{where}: another passage, in {its_path}, has the id "
                    f"{passage['id']!r}. Give each passage its own id."
                )


def _passages(
    path: files.Path, *, prefix: str = ""
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yields each passage of a file, and its place for errors.

    The file has one object per line, or one object over all its lines. Ids of
    passages that have none begin with `prefix`.
    """
    name = os.fspath(path)
    texts = list(_numbered_lines(path))
    if texts:
        try:
            json.loads(texts[0][1])
        except ValueError:
            texts = [(1, "\n".join(text_lines.read_lines(path)))]
    for number, text in texts:
        where = name if len(texts) == 1 else f"{name}, line {number}"
        passage = table_files.parse_object(text, where)
        missing = [key for key in _PASSAGE_KEYS if key not in passage]
        if missing:
            raise ValueError(
                f"{where}: a RACE passage must have {', '.join(_PASSAGE_KEYS)} "
                f"and, if known, answers. Missing: {', '.join(missing)}."
            )
        default = prefix + os.path.basename(name)
        default += f"-{number}" if len(texts) > 1 else ""
        passage["id"] = str(passage.get("id", default))
        yield passage, where


def _numbered_lines(path: files.Path) -> Iterator[tuple[int, str]]:
    """Yields the lines of a file that are not blank, and their numbers."""
    for number, text in enumerate(text_lines.read_lines(path), start=1):
        if text.strip():
            yield number, text


def _examples(
    passage: Mapping[str, Any], where: str, level: str = ""
) -> Iterator[MultipleChoiceExample]:
    """Yields the questions of a passage; by default, its id has the level."""
    where = f"{where}, passage {passage['id']}"
    if not level:
        found = [name for name in LEVELS if passage["id"].startswith(name)]
        level = found[0] if found else ""
    article = _check_text(passage["article"], "article", where)
    lists = {k: passage.get(k) or [] for k in (*_LISTS, "answers")}
    for key, value in lists.items():
        if not isinstance(value, list):
            raise ValueError(
                f"{where}: {key} must be a list with an entry for each "
                f"question. Received: {value!r}."
            )
    questions, options, answers = lists.values()
    answers = answers or [None] * len(questions)
    if not len(questions) == len(options) == len(answers) > 0:
        raise ValueError(
            f"{where}: each question must have options and an answer. "
            f"Received: {len(questions)} questions, {len(options)} lists of "
            f"options, {len(answers)} answers."
        )
    for i, question in enumerate(questions):
        place = f"{where}, question {i}"
        texts = _check_options(options[i], place)
        yield MultipleChoiceExample(
            guid=f"{passage['id']}-{i}",
            passage_id=passage["id"],
            level=level,
            article=article,
            question=_check_text(question, "question", place),
            options=texts,
            label=_find_label(answers[i], texts, place),
        )


def _has_passages(path: files.Path) -> bool:
    for number, text in _numbered_lines(path):
        where = f"{os.fspath(path)}, line {number}"
        return "questions" in table_files.parse_object(text, where)
    return False


def _read_jsonl(
    path: files.Path, fields: FieldNames
) -> Iterator[MultipleChoiceExample]:
    for number, text in _numbered_lines(path):
        where = f"{os.fspath(path)}, line {number}"
        row = table_files.parse_object(text, where)
        guid = str(row.get(fields.id_field, number))
        where = f"{where}, question {guid}"
        needed = (
            fields.article_field,
            fields.question_field,
            fields.options_field,
        )
        for field in needed:
            if field not in row:
                raise ValueError(
                    f"{where}: the field {field!r} is missing; found "
                    f"{', '.join(row)}. Name the fields with --article_field, "
                    "--question_field, --options_field and --answer_field."
                )
        article, question = (
            _check_text(row[name], name, where) for name in needed[:2]
        )
        options = _check_options(row[fields.options_field], where)
        yield MultipleChoiceExample(
            guid=guid,
            passage_id=guid,
            article=article,
            question=question,
            options=options,
            label=_find_label(row.get(fields.answer_field), options, where),
        )


def _read_mctest(path: files.Path) -> Iterator[MultipleChoiceExample]:
    rows = [row.split("\t") for row in text_lines.read_lines(path) if row]
    answers: list[list[Any]] = [[None] * _NUM_QUESTIONS] * len(rows)
    name = f"{os.path.splitext(path)[0]}.ans"
    if os.path.exists(name):
        answers = [
            row.split("\t") for row in text_lines.read_lines(name) if row
        ]
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
                f"{where}: a story of MCTest must have {_NUM_COLUMNS} columns "
                f"and {_NUM_QUESTIONS} answers. Received: {len(row)} and "
                f"{len(letters)}."
            )
        yield from _mctest_questions(row, letters, where)


def _mctest_questions(
    row: list[str], letters: list[Any], where: str
) -> Iterator[MultipleChoiceExample]:
    texts = row
    for escape, character in _ESCAPES.items():
        texts = [text.replace(escape, character) for text in texts]
    for i, letter in enumerate(letters):
        start = 3 + i * (1 + _NUM_OPTIONS)
        question = texts[start]
        for mark in _MARKS:
            question = question.removeprefix(mark)
        options = tuple(texts[start + 1 : start + 1 + _NUM_OPTIONS])
        yield MultipleChoiceExample(
            guid=f"{row[0]}-{i}",
            passage_id=row[0],
            article=texts[2],
            question=question.strip(),
            options=options,
            label=_find_label(letter, options, f"{where}, question {i}"),
        )


def _check_options(values: Any, where: str) -> tuple[str, ...]:
    """Returns options, which must be a list of 2 to 26 strings."""
    is_list = isinstance(values, list)
    if not is_list or not MIN_OPTIONS <= len(values) <= len(LETTERS):
        got = f"{len(values)} of them" if is_list else f"{values!r}"
        raise ValueError(
            f"{where}: the options must be a list of {MIN_OPTIONS} to "
            f"{len(LETTERS)} strings. Received: {got}. Complete the question, "
            "or remove it."
        )
    for letter, option in zip(LETTERS, values, strict=False):
        _check_text(option, f"option {letter}", where)
    return tuple(values)


def _check_text(value: Any, what: str, where: str) -> str:
    """Returns a value, which must be a string."""
    if not isinstance(value, str):
        raise ValueError(
            f"{where}: {what} must be a string. Received: {value!r}. Complete "
            "the question, or remove it."
        )
    return value


def _find_label(answer: Any, options: Sequence[str], where: str) -> int | None:
    """Returns the index of the right option, None if it is not known.

    An answer may be a letter, an index from 0, or the text of an option.
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
