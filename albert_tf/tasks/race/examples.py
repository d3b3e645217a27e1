"""Multiple-choice questions, and their records.

Data flow: files -> [this file] -> records -> batches.

A record has a row for each choice: `[CLS] article [SEP] question and option
[SEP]`, with segment ids 0 up to the first `[SEP]` and 1 behind it. If a choice
is too long, question and option keep their last tokens, the article its first.

Source: google-research/albert, `race_utils.RaceProcessor.read_examples` and
`race_utils.convert_single_example`.
"""

import dataclasses
import itertools
import logging
import re
import string
from collections.abc import Iterator, Sequence

import numpy as np

from albert_tf import checks
from albert_tf.tasks import example_files
from albert_tf.tasks.task import Record
from albert_tf.text.base import SpecialIds
from albert_tf.text.tokenizer import Tokenizer

_logger = logging.getLogger(__name__)

LEVELS = ("middle", "high")
LETTERS = string.ascii_uppercase
MIN_OPTIONS = 2
# The underscore, and the characters that normalization replaces by it.
BLANK = re.compile("[_\ufe33\ufe34\ufe4d\ufe4e\ufe4f\uff3f]")
# [CLS] and two [SEP].
NUM_SPECIAL_TOKENS = 3
# Articles encoded by one call: more would take more memory, save no time.
ARTICLES_PER_CALL = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultipleChoiceExample:
    """One question about an article, with the options to choose from.

    Args:
        guid: Unique in a set.
        passage_id: Id of the article, which several questions may share.
        level: `middle` or `high` for RACE, else empty.
        question: A question, or a sentence with blanks (`_`).
        label: Index of the correct option; None if it is not known.
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


def check_examples(
    examples: Sequence[MultipleChoiceExample], where: str
) -> None:
    """Checks what the questions of a set must agree on.

    Raises:
        ValueError: The set is empty, two questions have the same `guid`, or
            not all have the same number of options; the message begins with
            `where`.
    """
    example_files.check_ids([example.guid for example in examples], where)
    numbers = sorted({len(example.options) for example in examples})
    if len(numbers) > 1:
        raise ValueError(
            f"{where} has questions with {checks.listed(numbers)} options. All "
            "questions of a set must have the same number."
        )
    example_files.warn_of_empty_texts(
        [
            example.guid
            for example in examples
            if not all(
                map(
                    str.strip,
                    (example.article, example.question, *example.options),
                )
            )
        ],
        len(examples),
        where,
    )


def known_labels(examples: Sequence[MultipleChoiceExample]) -> list[int]:
    """Returns the label of every example.

    Raises:
        ValueError: The label of an example is not known.
    """
    unknown = [example.guid for example in examples if example.label is None]
    if unknown:
        raise ValueError(
            f"{len(unknown)} of {len(examples)} questions have no answer: "
            f"{checks.listed(unknown)}. For training and scoring, every "
            "question needs one; without answers, use --do_predict."
        )
    return [e.label for e in examples if e.label is not None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChoiceLengths:
    """Maximum lengths, in tokens.

    Args:
        max_seq_length: Of a sequence, S: article, question, option and
            special tokens; the longest question leaves room for the article.
        max_qa_length: Of question and option together.
    """

    max_seq_length: int = 512
    max_qa_length: int = 128

    def __post_init__(self) -> None:
        checks.check_integer("max_qa_length", self.max_qa_length, at_least=1)
        checks.check_integer(
            "max_seq_length",
            self.max_seq_length,
            at_least=self.max_qa_length + NUM_SPECIAL_TOKENS + 1,
        )


def make_records(
    examples: Sequence[MultipleChoiceExample],
    tokenizer: Tokenizer,
    lengths: ChoiceLengths,
) -> Iterator[Record]:
    """Yields the record of each example, in order.

    The article of neighbouring examples is encoded once. How many texts are
    truncated is logged at the end.

    Yields:
        Dict of int32 arrays: `input_ids`, `input_mask`, `segment_ids`
        `[C, s]`, where s is the length of the longest choice and shorter ones
        are padded; `label_ids` `[]`, 0 if the answer is not known.
    """
    num_cut_articles = num_cut_questions = 0
    by_article = (
        list(members)
        for _, members in itertools.groupby(examples, lambda e: e.article)
    )
    while groups := list(itertools.islice(by_article, ARTICLES_PER_CALL)):
        encoded, sizes = tokenizer.encode_batch(_texts(groups))
        ids = iter(np.split(encoded, np.cumsum(sizes)[:-1]))
        for members in groups:
            article = next(ids)
            for example in members:
                whole = [next(ids) for _ in example.options]
                choices = [ids_b[-lengths.max_qa_length :] for ids_b in whole]
                # Tokens of the article that fit beside each choice.
                rooms = [
                    lengths.max_seq_length - NUM_SPECIAL_TOKENS - len(choice)
                    for choice in choices
                ]
                num_cut_articles += min(rooms) < len(article)
                num_cut_questions += any(
                    len(ids_b) > lengths.max_qa_length for ids_b in whole
                )
                articles = [article[:room] for room in rooms]
                yield {
                    **_rows(articles, choices, tokenizer.special_ids),
                    "label_ids": np.array(example.label or 0, np.int32),
                }
    _logger.info(
        "Made records of %d questions; truncated the article of %d, and the "
        "question or an option of %d.",
        len(examples),
        num_cut_articles,
        num_cut_questions,
    )


def _texts(groups: Sequence[Sequence[MultipleChoiceExample]]) -> list[str]:
    """Returns each article, followed by the choices of its questions."""
    texts: list[str] = []
    for members in groups:
        texts.append(members[0].article)
        for example in members:
            texts += example.choice_texts()
    return texts


def _rows(
    articles: Sequence[np.ndarray],
    choices: Sequence[np.ndarray],
    special: SpecialIds,
) -> Record:
    sizes = [
        len(article) + len(choice) + NUM_SPECIAL_TOKENS
        for article, choice in zip(articles, choices, strict=True)
    ]
    shape = (len(sizes), max(sizes))
    input_ids = np.full(shape, special.pad, np.int32)
    input_mask = np.zeros(shape, np.int32)
    segment_ids = np.zeros(shape, np.int32)
    for row, (article, choice) in enumerate(
        zip(articles, choices, strict=True)
    ):
        start, end = len(article) + 2, sizes[row]
        input_ids[row, 0] = special.cls
        input_ids[row, 1 : start - 1] = article
        input_ids[row, [start - 1, end - 1]] = special.sep
        input_ids[row, start : end - 1] = choice
        input_mask[row, :end] = 1
        segment_ids[row, start:end] = 1
    return {
        "input_ids": input_ids,
        "input_mask": input_mask,
        "segment_ids": segment_ids,
    }
