"""SQuAD, the data half: records, scores, predictions, null threshold.

Data flow: examples -> records -> [model] -> outputs -> scores, files.
Floor: tasks. NumPy.

Source: google-research/albert, `run_squad_v1.py`, `run_squad_v2.py`.
"""

import dataclasses
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import features, files
from albert_tf.metrics import squad as metrics
from albert_tf.tasks.squad import examples as examples_lib
from albert_tf.tasks.squad import features as squad_features
from albert_tf.tasks.squad import predictions, report, windows
from albert_tf.tasks.squad.examples import SquadExample
from albert_tf.tasks.squad.predictions import (
    QuestionPrediction,
    SpanLimits,
    SpanPrediction,
)
from albert_tf.tasks.squad.windows import WindowedQuestion, WindowLengths
from albert_tf.tasks.task import Outputs
from albert_tf.text.tokenizer import Tokenizer

_logger = logging.getLogger(__name__)

PREDICTIONS_FILE = "predictions.json"
N_BEST_FILE = "nbest_predictions.json"
NULL_ODDS_FILE = "null_odds.json"
SCORES_FILE = "predict_results.json"
THRESHOLD_KEY = "null_threshold"
_DEFAULT_THRESHOLD = 0.0
_NULL_LOGITS = "cls_logits"


class SquadData:
    """A `task_data.TaskData` of `SquadExample`s.

    Its outputs are those of a `SpanModel`, or of a `BeamSpanModel` in version
    2.0, for each window.

    The null threshold of version 2.0, below which the null odds of a question
    must be for it to be answered, is the given one; or the one with the
    highest F1 on the examples that were scored last; or, if none were, the
    saved one; or 0.

    Args:
        tokenizer: Makes ids of text.
        lengths: How long questions and windows may be.
        limits: Which spans are considered, and how many are kept.
        version_2_with_negative: Whether questions may have no answer.
        null_threshold: The threshold; None to tune it.
        saved_threshold: The threshold that an earlier run has tuned.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        lengths: WindowLengths,
        limits: SpanLimits,
        version_2_with_negative: bool = False,
        null_threshold: float | None = None,
        saved_threshold: float | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._lengths = lengths
        self._limits = limits
        self._is_version_2 = version_2_with_negative
        self._null_threshold = null_threshold
        self._tuned_threshold = saved_threshold
        self._windowed: list[
            tuple[Sequence[SquadExample], list[WindowedQuestion]]
        ] = []

    @property
    def name(self) -> str:
        """`squad_v1` or `squad_v2`."""
        return "squad_v2" if self._is_version_2 else "squad_v1"

    @property
    def primary_metric(self) -> str:
        """F1, by which the reference chooses, too."""
        return "f1"

    @property
    def vocab_size(self) -> int:
        """See `TaskData.vocab_size`."""
        return self._tokenizer.vocab_size

    @property
    def array_specs(self) -> tuple[features.ArraySpec, ...]:
        """See `TaskData.array_specs`."""
        return squad_features.array_specs(
            version_2_with_negative=self._is_version_2,
            pad_id=self._tokenizer.special_ids.pad,
        )

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `TaskData.settings`."""
        return {
            "task": self.name,
            **dataclasses.asdict(self._lengths),
            "tokenizer": self._tokenizer.hash,
        }

    @property
    def null_threshold(self) -> float:
        """The threshold as it is now."""
        for threshold in (self._null_threshold, self._tuned_threshold):
            if threshold is not None:
                return threshold
        return _DEFAULT_THRESHOLD

    def records(
        self, examples: Sequence[SquadExample], *, is_training: bool
    ) -> Iterator[dict[str, np.ndarray]]:
        """See `TaskData.records`; one for each window."""
        special = self._tokenizer.special_ids
        if is_training:
            self._check(examples)
            found = squad_features.training_records(
                self._split(examples), special
            )
        else:
            found = squad_features.prediction_records(
                self._questions(examples), special
            )
        names = [spec.name for spec in self.array_specs]
        for record in found:
            yield {name: record[name] for name in names}

    def predict(
        self, examples: Sequence[SquadExample], outputs: Outputs
    ) -> list[QuestionPrediction]:
        """Returns a prediction for each example, before the null threshold.

        Args:
            examples: The questions.
            outputs: Of all their windows, in the order of the records.
        """
        found = []
        row = 0
        for question in self._questions(examples):
            own = slice(row, row + len(question.windows))
            found.append(self._predict(question, outputs, own))
            row = own.stop
        return found

    def scores(
        self, examples: Sequence[SquadExample], outputs: Outputs
    ) -> dict[str, float]:
        """Returns the official scores, 0 to 100; tunes the null threshold.

        Version 1.1: `exact_match`, `f1`. Version 2.0: `exact` and `f1`, also
        with `HasAns_` and `NoAns_` for the questions with and without an
        answer, and `null_threshold`.
        """
        self._check(examples)
        found = self.predict(examples, outputs)
        if self._is_version_2 and self._null_threshold is None:
            self._tuned_threshold = _best_threshold(examples, found)
        return self._scores(examples, found)

    def final_texts(self, found: Sequence[QuestionPrediction]) -> list[str]:
        """Returns the answers after the null threshold; "" for none."""
        if not self._is_version_2:
            return [one.text for one in found]
        return [
            one.text if one.null_odds < self.null_threshold else ""
            for one in found
        ]

    def write_predictions(
        self,
        examples: Sequence[SquadExample],
        outputs: Outputs,
        output_dir: str,
    ) -> list[str]:
        """Writes what is predicted, by id of the question.

        `predictions.json` has the answers, "" where there is none;
        `nbest_predictions.json` the likeliest ones; in version 2.0
        `null_odds.json` the odds of none. Where all true answers are known,
        their scores go into another file.
        """
        found = self.predict(examples, outputs)
        self._check_threshold()
        content: dict[str, Any] = {
            PREDICTIONS_FILE: self.final_texts(found),
            N_BEST_FILE: [list(map(_row, one.spans)) for one in found],
        }
        if self._is_version_2:
            content[NULL_ODDS_FILE] = [one.null_odds for one in found]
        guids = [example.guid for example in examples]
        content = {
            name: dict(zip(guids, values, strict=True))
            for name, values in content.items()
        }
        if examples_lib.are_answers_known(
            examples, version_2_with_negative=self._is_version_2
        ):
            content[SCORES_FILE] = self._scores(examples, found)
        paths = []
        for name, values in content.items():
            paths.append(os.path.join(output_dir, name))
            files.write_text(paths[-1], json.dumps(values, indent=4) + "\n")
        return paths

    def report_sections(
        self, examples: Sequence[SquadExample], outputs: Outputs
    ) -> list[dict[str, Any]]:
        """Returns the curve of the null threshold, and the worst errors."""
        found = self.predict(examples, outputs)
        errors = report.worst_errors(examples, found, self.final_texts(found))
        if not self._is_version_2:
            return [errors]
        return [report.threshold_chart(examples, found), errors]

    def _scores(
        self,
        examples: Sequence[SquadExample],
        found: Sequence[QuestionPrediction],
    ) -> dict[str, float]:
        """Scores with the threshold as it is.

        Differs: the reference's scores of version 2.0 take every question for
        predicted unanswerable whose no-answer logit exceeds 1, whatever its
        predictions say. These are the scores of the predictions.
        """
        answers = examples_lib.answer_texts(examples)
        texts = self.final_texts(found)
        if not self._is_version_2:
            return metrics.summarize(metrics.score_answers(texts, answers))
        return metrics.summarize_optional(
            metrics.score_optional_answers(texts, answers),
            examples_lib.has_answer(examples),
        ) | {THRESHOLD_KEY: self.null_threshold}

    def _check_threshold(self) -> None:
        is_known = (self._null_threshold, self._tuned_threshold) != (None, None)
        if self._is_version_2 and not is_known:
            _logger.warning(
                "No null threshold is known: %s is taken. Pass "
                "--null_score_diff_threshold, or --do_eval to tune it.",
                self.null_threshold,
            )

    def _check(self, examples: Sequence[SquadExample]) -> None:
        examples_lib.check_answers(
            examples, version_2_with_negative=self._is_version_2
        )

    def _split(
        self, examples: Sequence[SquadExample]
    ) -> Iterator[WindowedQuestion]:
        return windows.split_questions(examples, self._tokenizer, self._lengths)

    def _questions(
        self, examples: Sequence[SquadExample]
    ) -> list[WindowedQuestion]:
        """Returns the examples with their windows, made only once."""
        for known, questions in self._windowed:
            if known is examples:
                return questions
        questions = list(self._split(examples))
        self._windowed.append((examples, questions))
        return questions

    def _predict(
        self, question: WindowedQuestion, outputs: Outputs, rows: slice
    ) -> QuestionPrediction:
        if not self._is_version_2:
            spans = predictions.spans_of_logits(
                question,
                list(outputs["start_logits"][rows]),
                list(outputs["end_logits"][rows]),
                self._limits,
            )
            return QuestionPrediction(
                spans=predictions.best_spans(question, spans, self._limits)
            )
        beams = [
            {name: outputs[name][row] for name in predictions.BEAM_NAMES}
            for row in range(rows.start, rows.stop)
        ]
        spans = predictions.spans_of_beams(question, beams, self._limits)
        return QuestionPrediction(
            spans=predictions.best_spans(question, spans, self._limits),
            # TF1: one window that seems to have the answer is enough.
            null_odds=float(np.min(outputs[_NULL_LOGITS][rows])),
        )


def _best_threshold(
    examples: Sequence[SquadExample], found: Sequence[QuestionPrediction]
) -> float:
    """Returns the null threshold with the highest F1."""
    scores = metrics.score_optional_answers(
        [one.text for one in found], examples_lib.answer_texts(examples)
    )
    return metrics.threshold_curve(
        scores.f1,
        examples_lib.has_answer(examples),
        np.array([one.null_odds for one in found]),
    ).best


def _row(span: SpanPrediction) -> dict[str, Any]:
    """TF1: names of the fields, also in version 1.1, where they are logits."""
    return {
        "text": span.text,
        "probability": span.probability,
        "start_log_prob": span.start_score,
        "end_log_prob": span.end_score,
    }
