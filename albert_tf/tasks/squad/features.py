"""Windows as numbers: question and part of a paragraph, and the answer in it.

Data flow: windows -> [this file] -> records -> batches.
Floor: tasks. NumPy.

A window is `[CLS] question [SEP] paragraph [SEP]`, with segment ids 0 and,
behind the first `[SEP]`, 1. One that does not hold the whole answer counts as
impossible, and points to `[CLS]`.

Source: google-research/albert, `squad_utils.convert_examples_to_features`.
"""

import dataclasses
import logging
from collections.abc import Iterable, Iterator

import numpy as np

from albert_tf import features
from albert_tf.metrics import squad as metrics
from albert_tf.tasks.squad.windows import Window, WindowedQuestion
from albert_tf.text.special_tokens import SpecialIds

_logger = logging.getLogger(__name__)

MAX_LISTED = 100
_SHOWN_SIZE = 60


@dataclasses.dataclass(frozen=True, kw_only=True)
class Misfit:
    """A true answer that no tokens of the paragraph stand for exactly.

    Args:
        guid: Of the question.
        answer: Text of the answer.
        found: Text of the tokens that it touches; None if there are none, or
            if the paragraph does not have the answer where it should.
    """

    guid: str
    answer: str
    found: str | None


def array_specs(
    *, version_2_with_negative: bool, pad_id: int
) -> tuple[features.ArraySpec, ...]:
    """Returns the arrays of a record.

    Args:
        version_2_with_negative: Whether questions may have no answer.
        pad_id: Id of the padding token.
    """
    specs = [
        features.ArraySpec(
            name=name, dtype="int32", is_sequence=True, pad_value=pad_value
        )
        for name, pad_value in (
            ("input_ids", pad_id),
            ("input_mask", 0),
            ("segment_ids", 0),
        )
    ]
    specs += [
        features.ArraySpec(name=name, dtype="int32")
        for name in ("start_positions", "end_positions")
    ]
    if version_2_with_negative:
        specs += [
            features.ArraySpec(
                name="p_mask", dtype="float32", is_sequence=True, pad_value=1
            ),
            features.ArraySpec(name="is_impossible", dtype="float32"),
        ]
    return tuple(specs)


def prediction_records(
    questions: Iterable[WindowedQuestion], special: SpecialIds
) -> Iterator[dict[str, np.ndarray]]:
    """Yields the records of all windows, without answers.

    Args:
        questions: The questions.
        special: Ids of the special tokens.

    Yields:
        Dict of int32 `input_ids`, `input_mask`, `segment_ids` and float32
        `p_mask` (1 where no answer may be) `[s]`; int32 `start_positions`,
        `end_positions` and float32 `is_impossible` `[]`, all 0.
    """
    for question in questions:
        for window in question.windows:
            yield _record(question, window, special) | _label(0, 0, 0)


def training_records(
    questions: Iterable[WindowedQuestion], special: SpecialIds
) -> Iterator[dict[str, np.ndarray]]:
    """Yields the records of all windows, with one answer of each question.

    Questions without an answer where it should be are left out; they, and
    those whose answer shares a token with other characters, are counted, and
    listed in the log at the end.

    Args:
        questions: The questions; their answers are known.
        special: Ids of the special tokens.

    Yields:
        As `prediction_records`; `is_impossible` is 1 where the window does
        not hold the whole answer, and `start_positions` and `end_positions`,
        the first and the last token of it, are 0 there.
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
            record = _record(question, window, special)
            yield record | _labels_in(question, window, tokens)
    _log_misfits(misfits, num_questions)


def find_answer(
    question: WindowedQuestion,
) -> tuple[tuple[int, int] | None, Misfit | None]:
    """Finds the tokens of an answer.

    Of several answers it is the first that is made of whole tokens, in the
    sense of the metrics; or else the first of which there are any.

    Returns:
        Its first and last token in the paragraph, None if there is no answer
        or none can be found; and what is wrong with it, None if nothing is.
    """
    # Differs: the reference refuses to train on questions with several
    # answers, as files for evaluation have them.
    answers = question.example.answers or ()
    misfits = []
    for answer in answers:
        tokens = question.paragraph.find_tokens(answer)
        text = question.paragraph.span_text(*tokens) if tokens else None
        # Most are equal as they stand, and the metrics take longer to tell.
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


def _record(
    question: WindowedQuestion, window: Window, special: SpecialIds
) -> dict[str, np.ndarray]:
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


def _label(start: int, end: int, is_impossible: int) -> dict[str, np.ndarray]:
    return {
        "start_positions": np.array(start, np.int32),
        "end_positions": np.array(end, np.int32),
        "is_impossible": np.array(is_impossible, np.float32),
    }


def _labels_in(
    question: WindowedQuestion,
    window: Window,
    tokens: tuple[int, int] | None,
) -> dict[str, np.ndarray]:
    if not tokens or tokens[0] < window.start or tokens[1] >= window.end:
        return _label(0, 0, 1)
    shift = question.offset - window.start
    return _label(tokens[0] + shift, tokens[1] + shift, 0)


def _log_misfits(misfits: list[Misfit], num_questions: int) -> None:
    if not misfits:
        return
    num_lost = sum(misfit.found is None for misfit in misfits)
    _logger.warning(
        "%d of %d answers are not made of whole tokens, and the tokens that "
        "they touch are taken; %d are not in their paragraph, or no token is, "
        "and their questions are left out:",
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
