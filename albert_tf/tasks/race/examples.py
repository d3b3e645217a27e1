"""Multiple-choice questions, and the files that hold them.

Data flow: .txt, .jsonl -> [this file] -> examples -> `MultipleChoiceData`.

Each line of a file is a JSON object: a passage with its questions, as in RACE;
or one question with `article`, `question`, `options`, and, if they are known,
`answer` and `id`. RACE's archive has one passage per file, the original's
`all.txt` has them all; both may be in a folder.

Source: Lai et al. 2017 (RACE); google-research/albert, `race_utils`.
"""

import dataclasses
import glob
import os
import re
import string
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from albert_tf import checks, files
from albert_tf.tasks import example_files
from albert_tf.tasks.example_files import Source
from albert_tf.tasks.lengths import Lengths

LEVELS = ("middle", "high")
LETTERS = string.ascii_uppercase
MIN_OPTIONS = 2
# Underscores, and the characters that normalization replaces by them.
_UNDERSCORES = "[_\ufe33\ufe34\ufe4d\ufe4e\ufe4f\uff3f]+"
# Differs: `____` and `_ _` are one blank; RACE's own files write `_`.
BLANK = re.compile(f"{_UNDERSCORES}(?: +{_UNDERSCORES})*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultipleChoiceExample:
    """One question about an article, with the options to choose from.

    `guid` is unique in a set. `level` is one of `LEVELS` or empty, `label` the
    index of the correct option, if known.
    """

    guid: str
    level: str = ""
    article: str
    question: str
    options: tuple[str, ...]
    label: int | None = None

    def choice_texts(self) -> list[str]:
        """Returns C texts: an option replaces all blanks, or comes last.

        >>> MultipleChoiceExample(
        ...     guid="1", article="Snow is white.", question="Snow is _ .",
        ...     options=("white", "black"),
        ... ).choice_texts()
        ['Snow is white .', 'Snow is black .']
        """
        parts = BLANK.split(self.question)
        if len(parts) > 1:
            return [option.join(parts) for option in self.options]
        return [f"{self.question} {option}" for option in self.options]


def read_split(
    data_dir: files.Path, split: str, *, levels: Sequence[str] = LEVELS
) -> list[MultipleChoiceExample]:
    """Reads one split of the folder that holds `RACE/`, or of `RACE/` itself.

    They are sorted by level, then by file name.
    """
    data_dir = files.check_local(data_dir)
    paths = [
        (os.path.join(folder, name), level)
        for level in levels
        for folder in (
            os.path.join(data_dir, "RACE", split, level),
            os.path.join(data_dir, split, level),
        )
        for name in sorted(glob.glob("*.txt", root_dir=folder))
    ]
    if not paths:
        raise FileNotFoundError(
            f"There is no file RACE/{split}/{'|'.join(levels)}/*.txt in "
            f"{data_dir!r}. --data_dir must be the folder that holds RACE/."
        )
    examples = [
        example
        for path, level in paths
        for example in read_questions(path, level=level)
    ]
    # `all.txt` repeats the files that it was made of.
    return list(dict.fromkeys(examples))


def read_questions(
    path: Source, *, level: str = ""
) -> list[MultipleChoiceExample]:
    """Reads a file; by default, the ids of passages begin with the level."""
    examples: list[MultipleChoiceExample] = []
    for line, row in example_files.read_objects(path):
        default_id = str(line)
        if "questions" in row:
            default_id = f"{level}{os.path.basename(str(path))}-{line}"
        try:
            examples += _examples({"id": default_id} | row, level)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}, line {line}, is not a passage of RACE, nor a "
                "question with `article`, `question` and `options`. "
                f"{type(error).__name__}: {error}"
            ) from error
    return examples


def _examples(
    row: files.JsonObject, level: str
) -> Iterator[MultipleChoiceExample]:
    """Yields the questions of a line: of a passage, or a single one."""
    passage_id, article = str(row["id"]), row["article"]
    if "questions" in row:
        level = level or next(filter(passage_id.startswith, LEVELS), "")
        questions = row["questions"]
        guids = [f"{passage_id}-{i}" for i in range(len(questions))]
        answers = row.get("answers") or [None] * len(questions)
        columns = [guids, questions, row["options"], answers]
    else:
        level = ""
        question = row["question"], row["options"], row.get("answer")
        columns = [[value] for value in (passage_id, *question)]
    for guid, question, options, answer in zip(*columns, strict=True):
        for text in (article, question, *options):
            if not isinstance(text, str):
                raise TypeError(f"question {guid}: {text!r} is not a string")
        check_options(options, f"question {guid}")
        yield MultipleChoiceExample(
            guid=guid,
            level=level,
            article=article,
            question=question,
            options=tuple(options),
            label=_find_label(answer, options, guid),
        )


def check_options(options: Any, where: str) -> Sequence[Any]:
    """Returns the options of a question, if they are a list of several."""
    # A string would be as many options as it has letters.
    is_list = isinstance(options, list | tuple | np.ndarray)
    if not is_list or not MIN_OPTIONS <= len(options) <= len(LETTERS):
        raise ValueError(
            f"{where}: the options must be a list of {MIN_OPTIONS} to "
            f"{len(LETTERS)} strings. Received: {options!r:.100}"
        )
    return list(options)


def _find_label(
    answer: object, options: Sequence[str], guid: str
) -> int | None:
    """Returns the index of the correct option; None if it is not known.

    An answer may be a letter, an index from 0, or the text of an option.
    """
    if answer is None:
        return None
    letters = LETTERS[: len(options)]
    matches = {i for i, option in enumerate(options) if option == answer}
    if isinstance(answer, str) and len(answer.strip()) == 1:
        matches |= {letters.find(answer.strip())} - {-1}
    elif type(answer) is int and 0 <= answer < len(options):
        matches |= {answer}
    if len(matches) != 1:
        raise ValueError(
            f"question {guid}: the answer {answer!r} must be the letter, the "
            "index from 0, or the text of one option, or be left out"
        )
    return matches.pop()


def num_options(examples: Sequence[MultipleChoiceExample], where: str) -> int:
    """Returns how many options each question has, which must be the same."""
    numbers = sorted({len(example.options) for example in examples})
    if len(numbers) > 1:
        raise ValueError(
            f"{where} has questions with {checks.listed(numbers)} options. "
            "Pass those with different numbers separately."
        )
    return numbers[0]


def known_labels(examples: Sequence[MultipleChoiceExample]) -> list[int]:
    """Returns the label of every example, or fails if one is not known."""
    unknown = [example.guid for example in examples if example.label is None]
    if unknown:
        raise ValueError(
            f"{len(unknown)} of {len(examples)} questions have no answer: "
            f"{checks.listed(unknown)}. Without answers, use --do_predict."
        )
    return [e.label for e in examples if e.label is not None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChoiceLengths(Lengths):
    """Maximum lengths: S of a sequence, and of question and option together."""

    part = "max_qa_length"
    max_seq_length: int = 512
    max_qa_length: int = 128
