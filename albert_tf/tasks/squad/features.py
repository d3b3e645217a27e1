"""Windows as numbers: question, part of the context, and the answer in it.

Data flow: windows -> [this file] -> records -> batches.
Floor: tasks. NumPy.

A window is `[CLS] question [SEP] context [SEP]`, with segment ids 0 up to the
first `[SEP]` and 1 behind it. A window without the whole answer counts as
impossible to answer, and its answer points to `[CLS]`.

Source: google-research/albert, `squad_utils.convert_examples_to_features`.
"""

import dataclasses
import logging
from collections.abc import Iterable, Iterator

import numpy as np

from albert_tf.features import ArraySpec
from albert_tf.metrics import squad as metrics
from albert_tf.tasks import task
from albert_tf.tasks.squad.windows import Window, WindowedQuestion
from albert_tf.tasks.task import Record
from albert_tf.text.special_tokens import SpecialIds

_logger = logging.getLogger(__name__)

MAX_LISTED = 100
_SHOWN_SIZE = 60


@dataclasses.dataclass(frozen=True, kw_only=True)
class Misfit:
    """An answer that does not consist of whole tokens of its context.

    Args:
        guid: Id of the question.
        answer: Text of the answer.
        found: Text of the tokens that the answer touches; None if there are
            none, or if the context does not have the answer in its place.
    """

    guid: str
    answer: str
    found: str | None


def array_specs(
    *, version_2_with_negative: bool, pad_id: int
) -> tuple[ArraySpec, ...]:
    """Returns the arrays of a record; two more if there may be no answer."""
    specs = [
        *task.encoder_specs(pad_id),
        ArraySpec(name="start_positions", dtype="int32"),
        ArraySpec(name="end_positions", dtype="int32"),
    ]
    if version_2_with_negative:
        specs += [
            ArraySpec(
                name="p_mask", dtype="float32", is_sequence=True, pad_value=1
            ),
            ArraySpec(name="is_impossible", dtype="float32"),
        ]
    return tuple(specs)


def prediction_records(
    questions: Iterable[WindowedQuestion], special: SpecialIds
) -> Iterator[Record]:
    """Yields a record for each window, without answers.

    Yields:
        Dict of int32 `input_ids`, `input_mask`, `segment_ids` and float32
        `p_mask` (1 where no answer may be) `[s]`; int32 `start_positions`,
        `end_positions` and float32 `is_impossible` `[]`, all 0.
    """
    for question in questions:
        for window in question.windows:
            yield _inputs(question, window, special) | _labels(0, 0, 0)


def training_records(
    questions: Iterable[WindowedQuestion], special: SpecialIds
) -> Iterator[Record]:
    """Yields a record for each window, with one answer of its question.

    Questions are skipped if the context does not have their answer in its
    place. They are counted and listed in the log at the end, and so are
    answers that begin or end within a token.

    Yields:
        The arrays of `prediction_records`. Where the window holds the whole
        answer, `start_positions` and `end_positions` are its first and last
        token; elsewhere they are 0 and `is_impossible` is 1.
    """
    misfits: list[Misfit] = []
    num_questions = 0
    for question in questions:
        num_questions += 1
        tokens, misfit = find_answer(question)
        if misfit:
            misfits.append(misfit)
            if tokens is None:
                continue
        for window in question.windows:
            labels = _labels(0, 0, 1)
            if tokens and window.start <= tokens[0] <= tokens[1] < window.end:
                shift = question.offset - window.start
                labels = _labels(tokens[0] + shift, tokens[1] + shift, 0)
            yield _inputs(question, window, special) | labels
    _log_misfits(misfits, num_questions)


def find_answer(
    question: WindowedQuestion,
) -> tuple[tuple[int, int] | None, Misfit | None]:
    """Finds the tokens of an answer of a question.

    Of several answers it takes the first that consists of whole tokens, in
    the sense of the metrics; else the first that touches any tokens.

    Returns:
        The first and the last token of the answer in the context, None if
        there is no answer or if none can be found; and the answer as a misfit,
        None if it fits.
    """
    # Differs: the reference refuses to train on questions with several
    # answers, as files for evaluation have them.
    misfits = []
    for answer in question.example.answers or ():
        tokens = question.paragraph.find_tokens(answer)
        text = question.paragraph.span_text(*tokens) if tokens else None
        # Most texts are equal as they stand, which is quicker to check.
        if text is not None and (
            text == answer.text or metrics.exact_match(text, [answer.text])
        ):
            return tokens, None
        misfit = Misfit(
            guid=question.example.guid, answer=answer.text, found=text
        )
        misfits.append((tokens, misfit))
    misfits.sort(key=lambda pair: pair[0] is None)
    return misfits[0] if misfits else (None, None)


def _inputs(
    question: WindowedQuestion, window: Window, special: SpecialIds
) -> Record:
    offset = question.offset
    size = offset + window.size + 1
    input_ids = np.full(size, special.sep, np.int32)
    input_ids[0] = special.cls
    input_ids[1 : offset - 1] = question.question_ids
    input_ids[offset:-1] = question.paragraph.ids[window.start : window.end]
    segment_ids = np.zeros(size, np.int32)
    segment_ids[offset:] = 1
    p_mask = np.zeros(size, np.float32)
    p_mask[1:offset] = 1
    p_mask[-1] = 1
    return {
        "input_ids": input_ids,
        "input_mask": np.ones(size, np.int32),
        "segment_ids": segment_ids,
        "p_mask": p_mask,
    }


def _labels(start: int, end: int, is_impossible: int) -> Record:
    return {
        "start_positions": np.array(start, np.int32),
        "end_positions": np.array(end, np.int32),
        "is_impossible": np.array(is_impossible, np.float32),
    }


def _log_misfits(misfits: list[Misfit], num_questions: int) -> None:
    if not misfits:
        return
    num_lost = sum(misfit.found is None for misfit in misfits)
    _logger.warning(
        "%d of %d answers begin or end within a token; training uses the "
        "whole tokens. %d answers are not in their context, or are no tokens "
        "of it; their questions are skipped:",
        len(misfits) - num_lost,
        num_questions,
        num_lost,
    )
    for misfit in misfits[:MAX_LISTED]:
        _logger.warning(
            "  %s: %s, found: %s",
            misfit.guid,
            _shown(misfit.answer),
            "nothing" if misfit.found is None else _shown(misfit.found),
        )
    if len(misfits) > MAX_LISTED:
        _logger.warning("  and %d more.", len(misfits) - MAX_LISTED)


def _shown(text: str) -> str:
    cut = text if len(text) <= _SHOWN_SIZE else f"{text[:_SHOWN_SIZE]}..."
    return repr(cut)
