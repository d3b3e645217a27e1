"""SQuAD, the data half: records, scores, predictions, null threshold, report.

Data flow: examples -> records -> [model] -> outputs -> scores, files.
Source: google-research/albert, `run_squad_v1.py`, `run_squad_v2.py`.
"""

import contextlib
import dataclasses
import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from albert_tf import checks, files
from albert_tf.data.record_columns import RecordColumns
from albert_tf.features import ArraySpec
from albert_tf.metrics import squad as metrics
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.settings import SettingValues
from albert_tf.tasks import encoder_records, label_frequencies
from albert_tf.tasks.label_frequencies import Comparison
from albert_tf.tasks.squad import examples as examples_lib
from albert_tf.tasks.squad import predictions, windows
from albert_tf.tasks.squad.examples import SquadExample
from albert_tf.tasks.squad.predictions import QuestionPrediction, SpanLimits
from albert_tf.tasks.squad.windows import Questions, WindowLengths
from albert_tf.tasks.task_data import (
    Outputs,
    Record,
    Section,
    TaskData,
    TextAnswer,
)
from albert_tf.text.base import Tokenizer

_LOGGER = logging.getLogger(__name__)

PREDICTIONS_FILE = "predictions.json"
N_BEST_FILE = "nbest_predictions.json"
NULL_ODDS_FILE = "null_odds.json"
SCORES_FILE = "predict_results.json"
THRESHOLD_KEY = "null_threshold"
DEFAULT_THRESHOLD = 0.0
_MAX_ERRORS = 20
_MAX_POINTS = 200
_INDENT = 4
_NONE = "(none)"
_Examples: TypeAlias = Sequence[SquadExample]
_Predictions: TypeAlias = Sequence[QuestionPrediction]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadData(TaskData):
    """The data half of SQuAD, whose examples are `Questions`.

    Its outputs are the outputs of a `SpanModel` for each window, or, in version
    2.0, of a `BeamSpanModel`.

    Args:
        metric_language: `en` or `zh`; how answers are compared.
        version_2_with_negative: Whether questions may have no answer.
        null_score_diff_threshold: Null threshold; None to choose the best.
    """

    primary_metric = "f1"
    metric_range = (0.0, 100.0)
    label_array = "start_positions"
    no_loss_reason = "a question may have several answers"

    tokenizer: Tokenizer
    lengths: WindowLengths
    limits: SpanLimits
    metric_language: str = "en"
    version_2_with_negative: bool = False
    null_score_diff_threshold: float | None = None

    @property
    def name(self) -> str:
        """`squad_v1` or `squad_v2`."""
        return "squad_v2" if self.version_2_with_negative else "squad_v1"

    @property
    def max_seq_length(self) -> int:
        """S, in tokens."""
        return self.lengths.max_seq_length

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """The arrays of a record; two more if there may be no answer."""
        specs = [
            ArraySpec(name="start_positions", dtype="int32"),
            ArraySpec(name="end_positions", dtype="int32"),
        ]
        if self.version_2_with_negative:
            mask = ArraySpec(
                name="p_mask", dtype="float32", is_sequence=True, pad_value=1
            )
            specs += [mask, ArraySpec(name="is_impossible", dtype="float32")]
        return encoder_records.array_specs(self.tokenizer, *specs)

    @property
    def settings(self) -> SettingValues:
        """See `TaskData.settings`."""
        return {
            "task": self.name,
            **dataclasses.asdict(self.lengths),
            **self.tokenizer.identity(),
            # These decide which weights are the best.
            "metric_language": self.metric_language,
            **{
                name: value
                for name, value in vars(self.limits).items()
                if value != getattr(SpanLimits, name)
            },
        }

    def questions(self, examples: _Examples) -> Questions:
        """Returns examples as the questions that the other methods take."""
        return Questions(examples, self.tokenizer, self.lengths)

    def lack_of_answers(self, examples: _Examples) -> str | None:
        """Says why examples cannot be scored; returns None if they can."""
        unknown = [e.guid for e in examples if e.answers is None]
        if unknown:
            return (
                f"{len(unknown)} of {len(examples)} questions have neither an "
                f"answer nor `is_impossible`: {checks.listed(unknown)}. "
                "Without answers, use --do_predict."
            )
        impossible = [e.guid for e in examples if e.is_impossible]
        if impossible and not self.version_2_with_negative:
            return (
                f"{len(impossible)} of {len(examples)} questions have no "
                f"answer: {checks.listed(impossible)}. Pass "
                "--version_2_with_negative, or leave these questions out."
            )
        return None

    def records(
        self, examples: Questions, *, is_training: bool
    ) -> Iterator[Record]:
        """Yields a record for each window; see `TaskData.records`."""
        names = [spec.name for spec in self.array_specs]
        for record in windows.make_records(
            # Training does not need the windows again; they are not kept.
            examples.split() if is_training else examples.windowed,
            self.tokenizer.special_ids,
            is_training=is_training,
        ):
            yield {name: record[name] for name in names}

    def predict(
        self, examples: Questions, outputs: Outputs
    ) -> Iterator[QuestionPrediction]:
        """Yields the prediction for each question, without a null threshold."""
        find_spans = predictions.spans_of_logits
        if self.version_2_with_negative:
            find_spans = predictions.spans_of_beams
        row = 0
        for question in examples.windowed:
            rows = slice(row, row + len(question.windows))
            row = rows.stop
            in_windows = {n: values[rows] for n, values in outputs.items()}
            spans = find_spans(question, in_windows, self.limits)
            best = predictions.best_spans(question, spans, self.limits)
            if self.version_2_with_negative:
                # TF1: one window that seems to have the answer is enough.
                null_odds = float(np.min(in_windows["cls_logits"]))
                best = dataclasses.replace(best, null_odds=null_odds)
            yield best

    def _best(self, examples: Questions, outputs: Outputs) -> _Predictions:
        return [each.best() for each in self.predict(examples, outputs)]

    def answers(
        self, examples: Questions, outputs: Outputs
    ) -> Iterator[TextAnswer]:
        """Yields `answer`, `start`, `end`, `score`; see `load_predictor`."""
        best = self._best(examples, outputs)
        texts = self.final_texts(best, self.null_threshold(Scores()))
        for prediction, text in zip(best, texts, strict=True):
            start, end = prediction.characters if text else predictions.NOWHERE
            score = prediction.spans[0].probability
            yield {"answer": text, "start": start, "end": end, "score": score}

    def null_threshold(self, scores: Scores) -> float | None:
        """Returns the null threshold: given, or chosen for scores.

        A question is answered where its null odds are below it.
        """
        if self.null_score_diff_threshold is not None:
            return self.null_score_diff_threshold
        return scores.thresholds.get("")

    def scores(self, examples: Questions, outputs: Outputs) -> Scores:
        """Returns the official scores, 0 to 100.

        Version 1.1 has `exact_match` and `f1`; version 2.0 `exact` and `f1`,
        also with the prefixes `HasAns_` and `NoAns_`, and `null_threshold`, by
        default the one with the highest F1.
        """
        best = self._best(examples, outputs)
        threshold = self.null_score_diff_threshold
        if threshold is None and self.version_2_with_negative:
            curve = self._threshold_curves(examples, best)["F1"]
            threshold = float(curve[np.argmax(curve[:, 1]), 0])
        texts = self.final_texts(best, threshold)
        return self._scores(examples, texts, threshold)

    def score_of_rows(
        self, examples: Questions, outputs: Outputs, scores: Scores
    ) -> Callable[[np.ndarray], float]:
        """See `task_data.TaskData`."""
        best = self._best(examples, outputs)
        texts = self.final_texts(best, self.null_threshold(scores))
        answer_scores = self._answer_scores(examples, texts)
        return lambda rows: metrics.percentage(answer_scores.f1[rows])

    def compare_losses(
        self, columns: RecordColumns, outputs: Outputs
    ) -> Comparison:
        """Compares the starts of answers."""
        starts = columns.field(self.label_array)
        return label_frequencies.compare_starts(
            starts, columns.lengths, outputs
        )

    def baselines(
        self, examples: Questions, start_outputs: Outputs | None = None
    ) -> dict[str, float]:
        """Returns the better F1 of no answers and of whole texts as answers.

        There is none if no question has an answer.
        """
        if not examples_lib.has_answer(examples).any():
            return {}
        nothing = [""] * len(examples)
        everything = [each.context for each in examples]
        scores = (
            self._scores(examples, texts, None)[self.primary_metric]
            for texts in (nothing, everything)
        )
        return {self.primary_metric: max(scores)}

    def final_texts(
        self, best: _Predictions, null_threshold: float | None
    ) -> list[str]:
        """Returns the answers; "" where version 2.0 predicts that none is."""
        if not self.version_2_with_negative:
            return [p.text for p in best]
        limit = null_threshold or DEFAULT_THRESHOLD
        return [p.text if p.null_odds < limit else "" for p in best]

    @contextlib.contextmanager
    def open_predictions(
        self, output_dir: str, scores: Scores
    ) -> Iterator[Callable[[Questions, Outputs], None]]:
        """Opens the files of predictions; see `task_data.TaskData`.

        By id of the question, `predictions.json` has the answers, "" for none;
        `nbest_predictions.json` the best ones before the null threshold; and
        `null_odds.json` the null odds of version 2.0. If all true answers are
        known, `predict_results.json` has the scores.
        """
        for name in (NULL_ODDS_FILE, SCORES_FILE):
            files.remove(os.path.join(output_dir, name))
        examples: list[SquadExample] = []
        # Only the best answer of each: all would fill the memory.
        best: list[QuestionPrediction] = []
        with files.atomic_write(os.path.join(output_dir, N_BEST_FILE)) as file:

            def write(chunk: Questions, outputs: Outputs) -> None:
                for example, prediction in zip(
                    chunk, self.predict(chunk, outputs), strict=True
                ):
                    rows = {
                        example.guid: [s._asdict() for s in prediction.spans]
                    }
                    # Without the braces of the object: `{` and `\n}`.
                    item = json.dumps(rows, indent=_INDENT)[1:-2]
                    file.write(f"{',' if best else '{'}{item}".encode())
                    examples.append(example)
                    best.append(prediction.best())

            yield write
            file.write(b"\n}\n")
        threshold = self.null_threshold(scores)
        if self.version_2_with_negative and threshold is None:
            _LOGGER.warning(
                "The null threshold is not known; using %s. Pass "
                "--null_score_diff_threshold, or --do_eval to choose the best.",
                DEFAULT_THRESHOLD,
            )
        texts = self.final_texts(best, threshold)
        guids = [example.guid for example in examples]
        content: files.JsonObject = {
            PREDICTIONS_FILE: dict(zip(guids, texts, strict=True))
        }
        if self.version_2_with_negative:
            odds = [p.null_odds for p in best]
            content[NULL_ODDS_FILE] = dict(zip(guids, odds, strict=True))
        if not self.lack_of_answers(examples):
            scored = self._scores(examples, texts, threshold)
            content[SCORES_FILE] = scored.flat()
        for name, rows in content.items():
            text = json.dumps(rows, indent=_INDENT)
            files.write_text(os.path.join(output_dir, name), f"{text}\n")

    def report_sections(
        self, examples: Questions, outputs: Outputs, scores: Scores
    ) -> list[Section]:
        """Returns the worst errors and, in 2.0, the scores by threshold."""
        best = self._best(examples, outputs)
        texts = self.final_texts(best, self.null_threshold(scores))
        errors = self.worst_errors(examples, best, texts)
        if not self.version_2_with_negative:
            return [errors]
        return [self.threshold_chart(examples, best), errors]

    def _scores(
        self, examples: _Examples, texts: list[str], threshold: float | None
    ) -> Scores:
        # Differs: the reference's scores of version 2.0 count every question
        # whose no-answer logit exceeds 1 as predicted unanswerable, whatever
        # its predictions say. These are the scores of the predictions.
        scores = self._answer_scores(examples, texts)
        has_answer, chosen = None, []
        if self.version_2_with_negative:
            has_answer = examples_lib.has_answer(examples)
            value = threshold or DEFAULT_THRESHOLD
            chosen = [Score(THRESHOLD_KEY, value, Role.THRESHOLD)]
        values = metrics.summarize(scores, has_answer)
        entries = (Score(name, value) for name, value in values.items())
        return Scores(entries=(*entries, *chosen))

    def _answer_scores(
        self, examples: _Examples, texts: list[str]
    ) -> metrics.AnswerScores:
        return metrics.score_answers(
            texts,
            examples_lib.answer_texts(examples),
            are_optional=self.version_2_with_negative,
            language=self.metric_language,
        )

    def _threshold_curves(
        self, examples: _Examples, best: _Predictions
    ) -> dict[str, np.ndarray]:
        scores = self._answer_scores(examples, [p.text for p in best])
        has_answer = examples_lib.has_answer(examples)
        odds = np.array([p.null_odds for p in best])
        return {
            name: metrics.threshold_curve(values, has_answer, odds)
            for name, values in (("F1", scores.f1), ("exact", scores.exact))
        }

    def threshold_chart(
        self, examples: _Examples, best: _Predictions
    ) -> Section:
        """Returns a chart of the scores of version 2.0 by null threshold."""
        curves = {}
        for name, curve in self._threshold_curves(examples, best).items():
            shown = np.linspace(0, len(curve) - 1, _MAX_POINTS).astype(int)
            curves[name] = curve[np.unique(shown)].tolist()
        return {
            "title": "Scores by null threshold",
            "unit": "score",
            "curves": curves,
            "x_label": "null threshold",
        }

    def worst_errors(
        self, examples: _Examples, best: _Predictions, texts: list[str]
    ) -> Section:
        """Returns a table of the likeliest of the wrong answers, `texts`."""
        answers = examples_lib.answer_texts(examples)
        wrong: list[tuple[float, list[str]]] = []
        for example, prediction, expected, text in zip(
            examples, best, answers, texts, strict=True
        ):
            if not metrics.f1(
                text, expected or [""], language=self.metric_language
            ):
                row = [example.guid, example.question]
                row += [(expected or [_NONE])[0], text or _NONE]
                wrong.append((prediction.spans[0].probability, row))
        wrong.sort(key=lambda pair: -pair[0])
        return {
            "title": f"The worst of {len(wrong)} answers without a right word",
            "header": ["id", "question", "answer", "prediction", "probability"],
            "rows": [[*row, f"{p:.4f}"] for p, row in wrong[:_MAX_ERRORS]],
        }
