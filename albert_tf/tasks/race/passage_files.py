"""Files of multiple-choice questions: RACE's passages, and JSON lines.

Data flow: .txt, .jsonl -> [this file] -> examples.

Each line of a file is a JSON object: a passage with its questions, as in RACE;
or one question with `article`, `question`, `options`, and, if they are known,
`answer` and `id`. RACE's archive has one passage per file; the original wants
these concatenated in `all.txt`. Both are read, also from the same folder.

Source: Lai et al. 2017 (RACE); google-research/albert,
`race_utils.RaceProcessor.read_examples`.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from albert_tf import files
from albert_tf.tasks import example_files
from albert_tf.tasks.race.examples import (
    LETTERS,
    LEVELS,
    MIN_OPTIONS,
    MultipleChoiceExample,
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
    """
    data_dir = files.check_local(data_dir)
    paths = [
        (os.path.join(folder, name), level)
        for level in levels
        for folder in (
            os.path.join(data_dir, "RACE", split, level),
            os.path.join(data_dir, split, level),
        )
        if os.path.isdir(folder)
        for name in sorted(os.listdir(folder))
        if name.endswith(".txt")
    ]
    if not paths:
        raise FileNotFoundError(
            f"There is no file RACE/{split}/{'|'.join(levels)}/*.txt in "
            f"{data_dir!r}. --data_dir must be the folder that holds RACE/, as "
            "its archive unpacks."
        )
    examples = [
        example
        for path, level in paths
        for example in read_questions(path, level=level)
    ]
    # `all.txt` repeats the files that it was made of.
    return list(dict.fromkeys(examples))


def read_questions(
    path: files.Path, *, level: str = ""
) -> list[MultipleChoiceExample]:
    """Reads a file of passages or questions.

    Args:
        path: A file with one JSON object per line.
        level: That of the passages; by default, their ids begin with it.

    Raises:
        ValueError: A line is damaged; the message names file and line.
    """
    examples: list[MultipleChoiceExample] = []
    for line, row in example_files.read_objects(path):
        try:
            if "questions" in row:
                name = f"{level}{os.path.basename(path)}-{line}"
                examples += _of_passage({"id": name} | row, level)
            else:
                examples.append(_of_question({"id": line} | row))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}, line {line}, is not a passage of RACE, nor a "
                "question with `article`, `question` and `options`. "
                f"{type(error).__name__}: {error}"
            ) from error
    return examples


def _of_passage(
    row: Mapping[str, Any], level: str
) -> Iterator[MultipleChoiceExample]:
    passage_id = str(row["id"])
    if not level:
        level = next(filter(passage_id.startswith, LEVELS), "")
    questions = row["questions"]
    answers = row.get("answers") or [None] * len(questions)
    for i, (question, options, answer) in enumerate(
        zip(questions, row["options"], answers, strict=True)
    ):
        yield _example(
            f"{passage_id}-{i}",
            passage_id=passage_id,
            level=level,
            article=row["article"],
            question=question,
            options=options,
            answer=answer,
        )


def _of_question(row: Mapping[str, Any]) -> MultipleChoiceExample:
    question_id = str(row["id"])
    return _example(
        question_id,
        passage_id=question_id,
        article=row["article"],
        question=row["question"],
        options=row["options"],
        answer=row.get("answer"),
    )


def _example(
    guid: str, *, options: Any, answer: Any, **fields: Any
) -> MultipleChoiceExample:
    """Checks the values of a file, and makes an example of them."""
    for text in (*fields.values(), *options):
        if not isinstance(text, str):
            raise TypeError(f"question {guid}: {text!r} is not a string")
    # A string would be as many options as it has letters.
    is_list = isinstance(options, list)
    if not is_list or not MIN_OPTIONS <= len(options) <= len(LETTERS):
        raise ValueError(
            f"question {guid}: the options must be a list of {MIN_OPTIONS} to "
            f"{len(LETTERS)} strings. Received: {options!r}"
        )
    return MultipleChoiceExample(
        guid=guid,
        options=tuple(options),
        label=None if answer is None else _find_label(answer, options, guid),
        **fields,
    )


def _find_label(answer: Any, options: Sequence[str], guid: str) -> int:
    """Returns the index of the correct option.

    An answer may be a letter, an index from 0, or the text of an option.
    """
    letters = LETTERS[: len(options)]
    matches = {i for i, option in enumerate(options) if option == answer}
    if isinstance(answer, str) and len(answer.strip()) == 1:
        matches |= {letters.find(answer.strip())} - {-1}
    elif type(answer) is int and 0 <= answer < len(options):
        matches |= {answer}
    if len(matches) != 1:
        raise ValueError(
            f"question {guid}: the answer {answer!r} must be the letter, the "
            "index from 0, or the text of one option. Leave it out if it is "
            "not known"
        )
    return matches.pop()
