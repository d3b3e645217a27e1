"""Classification and regression, the NumPy half: records, scores, files.

Data flow: examples -> records -> [model] -> logits -> scores, files.
Source: google-research/albert, `classifier_utils` and `run_classifier`.
"""

import contextlib
import dataclasses
import itertools
import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from albert_tf.checkpoints.metadata import Metadata
from albert_tf.features import ArraySpec
from albert_tf.metrics import classification
from albert_tf.metrics.scores import Score, Scores
from albert_tf.settings import SettingValues
from albert_tf.tasks import encoder_records, prediction_tables
from albert_tf.tasks.classification import decision as decision_lib
from albert_tf.tasks.classification.decision import Decision
from albert_tf.tasks.labelled_texts import ClassificationExample
from albert_tf.tasks.task_data import (
    Outputs,
    Predictions,
    Record,
    Section,
    SimpleInputs,
    TaskData,
    TextAnswer,
)
from albert_tf.text.base import Tokenizer

_LOGGER = logging.getLogger(__name__)

# Scores of two classes that depend on which one is positive.
_OF_ONE_CLASS = ("f1", "average_precision")
# Examples encoded by one call: more would take more memory, save no time.
_CHUNK_SIZE = 4096
_Examples: TypeAlias = Sequence[ClassificationExample]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationData(TaskData):
    """The data half of classification: labels or numbers for texts or pairs.

    Args:
        labels: All labels in the order of the logits; empty for regression.
        score_names: Keys of `metrics.classification`, primary metric first.
        submission_file: Name of the file with one prediction per row.
        prediction_range: Predicted numbers are clipped to this range.
        has_class_scores: Whether each class has scores of its own.
        positive_label: With two labels, the label whose F1 is computed; keys of
            scores then name it. Empty for the second label, unnamed in keys.
        label_separator: Separates the labels of a row; empty if it has one.
        decision: How labels are predicted. `scores` chooses the parts that are
            None.
        target_mean: Regression: the number that a logit of 0 stands for.
        target_scale: Regression: the difference that 1 in a logit stands for.
        output_names: Regression: names of the numbers, if there are several.
        text_columns: Columns of a custom table that hold the texts.
        class_weights: Weights of the labels in the loss; empty if all are 1.
        validation: Share, seed and digests of the rows held out, if there are
            any; see `held_out.hold_out`.
    """

    has_folds = True

    name: str
    labels: tuple[str, ...]
    score_names: tuple[str, ...]
    tokenizer: Tokenizer
    max_seq_length: int
    submission_file: str = "predictions.tsv"
    prediction_range: tuple[float, float] | None = None
    has_class_scores: bool = False
    positive_label: str = ""
    label_separator: str = ""
    decision: Decision = Decision()
    target_mean: float = 0.0
    target_scale: float = 1.0
    output_names: tuple[str, ...] = ()
    text_columns: tuple[str, ...] = ()
    class_weights: tuple[float, ...] = ()
    validation: list[object] | None = None

    @property
    def is_regression(self) -> bool:
        """Whether the task is to predict a number, not a label."""
        return not self.labels

    @property
    def is_multi_label(self) -> bool:
        """Whether a row has any number of labels."""
        return bool(self.label_separator)

    @property
    def goal(self) -> str:
        """The goal of the threshold, such as `recall:0.9`."""
        return self.decision.goal

    @property
    def primary_metric(self) -> str:
        """The key of the first score."""
        return self._score(self.score_names[0], 0.0).key

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """The arrays of the encoder, and `label_ids`."""
        is_float = self.is_regression or self.is_multi_label
        label_ids = ArraySpec(
            name="label_ids",
            dtype="float32" if is_float else "int32",
            shape=(len(self.labels),) if self.is_multi_label else (),
        )
        return encoder_records.array_specs(self.tokenizer, label_ids)

    @property
    def settings(self) -> SettingValues:
        """See `TaskData.settings`."""
        values = {
            "task": self.name,
            "labels": list(self.labels),
            "max_seq_length": self.max_seq_length,
            **self.tokenizer.identity(),
            "text_columns": list(self.text_columns),
            "class_weights": list(self.class_weights),
            "validation": self.validation,
        }
        if self.is_multi_label:
            values["multi_label"] = True
            values["label_separator"] = self.label_separator
        if not self._positive:
            values["positive_label"] = self.positive_label
        if self.output_names:
            values["output_names"] = list(self.output_names)
        if (self.target_mean, self.target_scale) != (0, 1):
            values["target_mean"] = self.target_mean
            values["target_scale"] = self.target_scale
        return values

    def records(
        self, examples: Iterable[ClassificationExample], *, is_training: bool
    ) -> Iterator[Record]:
        """Yields a record of each example; the label is 0 if it is unknown."""
        num_cut, num_examples, remaining = 0, 0, iter(examples)
        while chunk := list(itertools.islice(remaining, _CHUNK_SIZE)):
            num_examples += len(chunk)
            texts = [text for e in chunk for text in (e.text_a, e.text_b)]
            all_ids, lengths = self.tokenizer.encode_batch(texts)
            flat_ids = iter(all_ids.tolist())
            ids = [[*itertools.islice(flat_ids, n)] for n in lengths.tolist()]
            for example, ids_a, ids_b in zip(
                chunk, ids[::2], ids[1::2], strict=True
            ):
                record = encoder_records.of_pair(self, ids_a, ids_b)
                full_length = len(ids_a) + len(ids_b) + (3 if ids_b else 2)
                num_cut += full_length > record["input_ids"].size
                yield record | {"label_ids": self._label_ids(example)}
        if num_cut:
            text = "%d of %d examples are truncated to %d tokens."
            _LOGGER.info(text, num_cut, num_examples, self.max_seq_length)

    def scores(self, examples: _Examples, outputs: Outputs) -> Scores:
        """Returns scores, and the decision chosen, from `logits` `[N, K]`."""
        labels = self._label_array(examples)
        if self.is_regression:
            return classification.of_numbers(
                self.score_names, labels, self._numbers(outputs)
            )
        logits = np.asarray(outputs["logits"], np.float32)
        decision = self._decision.chosen_for(labels, logits, self._positive)
        predictions = self._likeliest(decision, logits)
        probabilities = decision.probabilities(logits)
        metadata = Metadata(
            labels=self.labels,
            temperature=decision.temperature,
            thresholds=decision.thresholds,
        )
        others = [*metadata.chosen.entries]
        if not self.is_multi_label:
            others += decision_lib.calibration_errors(labels, logits, decision)
        if self.has_class_scores or decision.goal:
            decided = decision.predictions(logits)
            others += classification.class_scores(labels, decided, self.labels)
            if self._may_not_answer and decision.thresholds:
                others += decision_lib.answered_scores(labels, decided)
            others += self._goal_interval(decision, labels, decided)
        arrays = labels, predictions, probabilities, self._positive
        task_scores = [
            self._score(name, classification.of_classes(name, *arrays))
            for name in self.score_names
        ]
        left_out = [x.key for x in task_scores if math.isnan(x.value)]
        if left_out:
            text = "%s: left out. The evaluated rows are all of one class."
            _LOGGER.warning(text, ", ".join(left_out))
        task_scores = [x for x in task_scores if x.key not in left_out]
        # A score of a class may also be a score of the task.
        entries = {score.key: score for score in (*task_scores, *others)}
        return Scores(entries=tuple(entries.values()))

    def _goal_interval(
        self, decision: Decision, labels: np.ndarray, decided: np.ndarray
    ) -> list[Score]:
        """Returns the interval of the score that a threshold was chosen for."""
        if not (decision.goal and decision.thresholds):
            return []
        both = labels == self._positive, decided == self._positive
        if self._may_not_answer:
            both = labels == decided, decided != decision_lib.NO_ANSWER
        key = self._score_of_goal
        return decision_lib.goal_interval(decision.goal, key, *both)

    def score_of_rows(
        self, examples: _Examples, outputs: Outputs, scores: Scores
    ) -> Callable[[np.ndarray], float]:
        """See `task_data.TaskData`."""
        labels = self._label_array(examples)
        if self.is_regression:
            predictions = self._numbers(outputs)
        else:
            logits = np.asarray(outputs["logits"])
            predictions = self._likeliest(self.decided_by(scores), logits)
        score = classification.SCORES[self.score_names[0]]
        return lambda rows: score(labels[rows], predictions[rows])

    def baselines(
        self, examples: _Examples, start_outputs: Outputs | None = None
    ) -> dict[str, float]:
        """See `task_data.TaskData`."""
        labels = self._label_array(examples)
        if self.is_regression:
            mean = np.full_like(labels, labels.mean())
            return classification.of_numbers(
                self.score_names, labels, mean
            ).flat()
        score = classification.of_one_answer(
            self.score_names[0], labels, len(self.labels)
        )
        return {self.primary_metric: score}

    def simple_inputs(self, examples: _Examples) -> SimpleInputs:
        """See `task_data.TaskData`."""
        texts = [(each.text_a, each.text_b) for each in examples]
        labels = np.array([self._label_ids(example) for example in examples])
        return SimpleInputs("tfidf", texts, labels, len(self.labels))

    def _score(self, name: str, value: float) -> Score:
        """Returns a score, which may belong to the positive class."""
        if self.positive_label and name in _OF_ONE_CLASS:
            return Score.of_label(name, self.positive_label, value)
        return Score(name, value)

    def _label_array(self, examples: _Examples) -> np.ndarray:
        """Returns int or float `[N]`; or int 0 and 1 `[N, K]`."""
        if not self.is_multi_label:
            return np.array([example.label for example in examples])
        return np.array([self._label_ids(example) for example in examples], int)

    def _numbers(self, outputs: Outputs) -> np.ndarray:
        """Returns the predictions of a regression, `[N]` or `[N, K]`."""
        logits = np.asarray(outputs["logits"], np.float32)
        logits = logits[:, 0] if logits.shape[1] == 1 else logits
        if (self.target_mean, self.target_scale) == (0, 1):
            return logits
        # Large numbers, such as timestamps, need more digits than float32 has.
        numbers = logits.astype(np.float64)
        return numbers * self.target_scale + self.target_mean

    @property
    def _decision(self) -> Decision:
        return dataclasses.replace(
            self.decision, has_several=self.is_multi_label
        )

    def _likeliest(self, decision: Decision, logits: np.ndarray) -> np.ndarray:
        # A threshold for a goal must not influence which weights are best.
        if not self.is_multi_label:
            decision = dataclasses.replace(decision, thresholds=None)
        return decision.predictions(logits)

    @property
    def _score_of_goal(self) -> str:
        kind = self.goal.partition(":")[0]
        if self._may_not_answer:
            return decision_lib.ANSWERED_ACCURACY
        return f"{kind}_of_{self.labels[self._positive]}" if kind else ""

    @property
    def _may_not_answer(self) -> bool:
        return len(self.labels) > 2 and not self.is_multi_label

    @property
    def _positive(self) -> int:
        """The index of the positive label, whose F1 is computed."""
        label = self.positive_label
        return self.labels.index(label) if label else 1

    def with_decision(self, scores: Scores) -> "ClassificationData":
        """Returns this data half with the decision of another evaluation."""
        decision = dataclasses.replace(
            self.decided_by(scores), goal="", calibrates=False
        )
        return dataclasses.replace(self, decision=decision)

    def decided_by(self, scores: Scores) -> Decision:
        """Returns the decision, completed by the choices of an evaluation."""
        chosen = Metadata(labels=self.labels).measured(scores.flat())
        return dataclasses.replace(
            self._decision,
            temperature=self.decision.temperature or chosen.temperature,
            thresholds=self.decision.thresholds or chosen.thresholds,
        )

    @contextlib.contextmanager
    def open_predictions(
        self, output_dir: str, scores: Scores
    ) -> Iterator[Callable[[_Examples, Outputs], None]]:
        """Opens the tables of probabilities or numbers, and of predictions."""
        decision = self.decided_by(scores)
        if decision.thresholds is None and self.is_multi_label:
            _LOGGER.warning(
                "The thresholds of the labels are not known; using %s. Pass "
                "--do_eval to choose thresholds with the best F1.",
                decision_lib.DEFAULT_THRESHOLD,
            )
        if decision.thresholds is None and decision.goal:
            _LOGGER.warning(
                "No threshold is known that reaches %s; the likelier label is "
                "predicted.",
                decision.goal,
            )
        if (share := scores.get("answered")) is not None:
            _LOGGER.warning(
                "%s: %.3g%% of the evaluated rows are answered. The others "
                "have no prediction.",
                decision.goal or "By the thresholds",
                100 * share,
            )
        if bounds := scores.interval(self._score_of_goal):
            _LOGGER.warning(
                "The evaluated rows reach %s. On others, it may be between "
                "%.3g and %.3g.",
                decision.goal,
                *bounds,
            )
        with prediction_tables.open_tables(
            output_dir, self.submission_file, self._text
        ) as write_row:

            def write(examples: _Examples, outputs: Outputs) -> None:
                numbers, answers = self._answers(outputs, decision)
                rows = zip(examples, numbers.tolist(), answers, strict=True)
                for row in rows:
                    write_row(*row)

            yield write

    def answers(
        self, examples: _Examples, outputs: Outputs
    ) -> Iterator[TextAnswer]:
        """Yields `prediction` and `probabilities`; see `load_predictor`."""
        rows, predictions = self._answers(outputs, self._decision)
        for row, prediction in zip(rows.tolist(), predictions, strict=True):
            if self.is_regression:
                if self.output_names:
                    prediction = dict(zip(self.output_names, row, strict=True))
                yield {"prediction": prediction}
                continue
            labels = self._names(prediction)
            first = labels[0] if labels else None
            yield {
                "prediction": labels if self.is_multi_label else first,
                "probabilities": dict(zip(self.labels, row, strict=True)),
            }

    def _answers(
        self, outputs: Outputs, decision: Decision
    ) -> tuple[np.ndarray, list[Any]]:
        """Returns the probabilities or numbers of rows, and predictions."""
        if self.is_regression:
            clipped = numbers = self._numbers(outputs)
            if self.prediction_range:
                clipped = np.clip(numbers, *self.prediction_range)
            return numbers.reshape(len(numbers), -1), clipped.tolist()
        logits = np.asarray(outputs["logits"])
        predictions = [*decision.predictions(logits)]
        if self.is_multi_label:
            predictions = [np.flatnonzero(row) for row in predictions]
        return decision.probabilities(logits), predictions

    def _names(self, label: Any) -> list[str]:
        """Returns the names of a label or labels; none for no answer."""
        indices = np.atleast_1d(label)
        return [self.labels[i] for i in indices if i != decision_lib.NO_ANSWER]

    def _text(self, label: Any) -> str:
        """Returns the text that files show for a label, labels or a number."""
        if self.is_regression:
            return str(label)
        names = self._names(label)
        if self.is_multi_label and self.label_separator in "".join(names):
            return json.dumps(names, ensure_ascii=False)
        return self.label_separator.join(names)

    def predictions_of(
        self, examples: _Examples, outputs: Outputs, scores: Scores
    ) -> Predictions:
        """Returns the numbers, or the labels, by the thresholds in use."""
        labels = self._label_array(examples)
        if self.is_regression:
            return Predictions(labels, self._numbers(outputs))
        logits = np.asarray(outputs["logits"])
        decision = self.decided_by(scores)
        return Predictions(
            labels,
            decision.predictions(logits),
            decision.probabilities(logits),
            self.labels,
        )

    def report_sections(
        self, examples: _Examples, outputs: Outputs, scores: Scores
    ) -> list[Section]:
        """Returns a chart of the calibration."""
        if self.is_regression or self.is_multi_label:
            return []
        labels = self._label_array(examples)
        logits = np.asarray(outputs["logits"])
        decision = self.decided_by(scores)
        return [decision_lib.calibration_chart(labels, logits, decision)]

    def _label_ids(self, example: ClassificationExample) -> np.ndarray:
        """Returns the label as the loss expects it; 0 if it is unknown."""
        label: Any = example.label
        if self.is_multi_label:
            ids = np.zeros(len(self.labels), np.float32)
            ids[list(label or ())] = 1
            return ids
        if not self.is_regression:
            return np.array(label or 0, np.int32)
        offset = 0.0 if label is None else label - self.target_mean
        return np.array(offset / self.target_scale, np.float32)
