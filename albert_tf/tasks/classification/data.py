"""Classification and regression, the NumPy half: records, scores, files.

Data flow: examples -> [this file] -> records -> [model] -> logits ->
[this file] -> `eval_results`, `test_results.tsv`, submission.
No TensorFlow.

Source: google-research/albert, `classifier_utils` (features, scores) and
`run_classifier` (files of predictions).
"""

import contextlib
import dataclasses
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.checkpoints import metadata
from albert_tf.features import ArraySpec
from albert_tf.metrics import classification
from albert_tf.tasks import task
from albert_tf.tasks.classification import prediction_files
from albert_tf.tasks.classification import scores as scores_lib
from albert_tf.tasks.classification.examples import ClassificationExample
from albert_tf.tasks.task import Outputs, Record
from albert_tf.text import base
from albert_tf.text.tokenizer import Tokenizer

_logger = logging.getLogger(__name__)

_CLASS_SCORES = ("precision", "recall", "f1", "number")
DEFAULT_THRESHOLD = 0.5
# Examples encoded by one call: more would take more memory, save no time.
_CHUNK_SIZE = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationData:
    """A `task.TaskData`: labels, or a number, for one text or two.

    Args:
        labels: All labels in the order of the logits; empty for regression.
        score_names: Names of `scores.names_for`; the first one is the primary
            metric.
        max_seq_length: Maximum length of a record, with special tokens.
        submission_file: Name of the file with one prediction per row.
        prediction_range: Smallest and largest number in a submission; numbers
            outside are clipped. None for any number.
        has_class_scores: Whether precision, recall, F1 and number of every
            class are among the scores.
        positive_label: Of two labels, the one that the F1 is of, which the
            keys of the scores then name; empty for the second.
        label_separator: What separates the labels of a row that may have
            several; empty if each has one.
        thresholds: The probability from which on each label of several is
            predicted; None to choose those with the best F1 in `scores`.
        target_mean: Regression: the number that a logit of 0 stands for.
        target_scale: Regression: what an increase of a logit by 1 stands for.
        text_columns: Where the texts of a table of one's own come from.
        class_weights: Weights of the labels in the loss; empty for 1.
        validation: Share and seed of the rows held out; None if there are none.
    """

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
    thresholds: tuple[float, ...] | None = None
    target_mean: float = 0.0
    target_scale: float = 1.0
    text_columns: tuple[str, ...] = ()
    class_weights: tuple[float, ...] = ()
    validation: tuple[float, int] | None = None

    @property
    def is_regression(self) -> bool:
        """Whether the task is to predict a number, not a label."""
        return not self.labels

    @property
    def is_multi_label(self) -> bool:
        """Whether a row has any number of labels."""
        return bool(self.label_separator)

    @property
    def primary_metric(self) -> str:
        """The first of the scores."""
        return self._key(self.score_names[0])

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """Ids, mask and segments; and `label_ids`.

        These are an int; for regression a float; for rows with several labels
        floats 0 and 1 `[K]`.
        """
        is_float = self.is_regression or self.is_multi_label
        return (
            *task.encoder_specs(self.tokenizer.special_ids.pad),
            ArraySpec(
                name="label_ids",
                dtype="float32" if is_float else "int32",
                shape=(len(self.labels),) if self.is_multi_label else (),
            ),
        )

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `TaskData.settings`."""
        values = {
            "task": self.name,
            "labels": list(self.labels),
            "max_seq_length": self.max_seq_length,
            "tokenizer": self.tokenizer.hash,
            "text_columns": list(self.text_columns),
            "class_weights": list(self.class_weights),
            "validation": self.validation and list(self.validation),
        }
        if self.is_multi_label:
            values["multi_label"] = True
        if (self.target_mean, self.target_scale) != (0, 1):
            values["target_mean"] = self.target_mean
            values["target_scale"] = self.target_scale
        return values

    def records(
        self, examples: Iterable[ClassificationExample], *, is_training: bool
    ) -> Iterator[Record]:
        """Yields one record for each example, in their order.

        Examples without a label get label 0. How many are truncated is logged.
        Some thousand examples are in memory at a time.
        """
        del is_training
        num_cut, num_examples, rest = 0, 0, iter(examples)
        while chunk := list(itertools.islice(rest, _CHUNK_SIZE)):
            num_examples += len(chunk)
            ids = self._encode(chunk)
            for example, ids_a, ids_b in zip(
                chunk, ids[::2], ids[1::2], strict=True
            ):
                record = self._record(example, ids_a, ids_b)
                wanted = len(ids_a) + len(ids_b) + (3 if ids_b else 2)
                num_cut += wanted > record["input_ids"].size
                yield record
        if num_cut:
            _logger.info(
                "%d of %d examples are truncated to %d tokens.",
                num_cut,
                num_examples,
                self.max_seq_length,
            )

    def scores(
        self, examples: Sequence[ClassificationExample], outputs: Outputs
    ) -> dict[str, float]:
        """Returns the task's scores, from `logits`, float `[N, K]`.

        For rows with several labels, the thresholds that the predictions are
        made with are among them.

        Raises:
            ValueError: An example has no label, or there is none.
        """
        labels = self._label_array(examples)
        if self.is_regression:
            numbers = self._numbers(outputs)
            return {
                name: scores_lib.SCORES[name](labels, numbers)
                for name in self.score_names
            }
        probabilities = self._probabilities(outputs)
        found, thresholds = {}, self.thresholds
        if self.is_multi_label:
            if thresholds is None:
                thresholds = scores_lib.best_thresholds(labels, probabilities)
            found = self._threshold_scores(thresholds)
        predictions = self._predictions(outputs, thresholds)
        if self.has_class_scores:
            for label, own in self._class_scores(labels, predictions).items():
                for name, value in zip(_CLASS_SCORES, own, strict=True):
                    found[f"{name}_of_{label}"] = float(value)
        if self.positive_label and self.positive_label == self.labels[0]:
            # The scores of two classes are those of label 1.
            labels, predictions = 1 - labels, 1 - predictions
            probabilities = probabilities[:, ::-1]
        values = (
            scores_lib.of_classes(name, labels, predictions, probabilities)
            for name in self.score_names
        )
        headline = zip(map(self._key, self.score_names), values, strict=True)
        return scores_lib.defined(dict(headline)) | found

    def _key(self, name: str) -> str:
        return scores_lib.key(name, self.positive_label)

    def _class_scores(
        self, labels: np.ndarray, predictions: np.ndarray
    ) -> dict[str, tuple[float, ...]]:
        """Returns the values of `_CLASS_SCORES` by label."""
        found = classification.class_scores(
            labels, predictions, len(self.labels)
        )
        return dict(zip(self.labels, found, strict=True))

    def _label_array(
        self, examples: Sequence[ClassificationExample]
    ) -> np.ndarray:
        """Returns int or float `[N]`; or int 0 and 1 `[N, K]`."""
        labels = [example.label for example in examples]
        if None in labels:
            guid = examples[labels.index(None)].guid
            raise ValueError(
                f"Example {guid!r} has no label, so it cannot be scored. "
                "Evaluate on labelled examples."
            )
        if not self.is_multi_label:
            return np.array(labels)
        return np.array([self._label_ids(example) for example in examples], int)

    def _numbers(self, outputs: Outputs) -> np.ndarray:
        """Returns the predictions of a regression, float `[N]`."""
        numbers = np.asarray(outputs["logits"])[:, 0]
        if (self.target_mean, self.target_scale) == (0, 1):
            return numbers
        scaled = numbers.astype(np.float64) * self.target_scale
        # As they are written to files.
        return (scaled + self.target_mean).astype(np.float32)

    def _probabilities(self, outputs: Outputs) -> np.ndarray:
        """Returns the probabilities of the labels, float32 `[N, K]`."""
        logits = np.asarray(outputs["logits"], np.float32)
        if self.is_multi_label:
            return classification.sigmoid(logits)
        return classification.softmax(logits)

    def _predictions(
        self, outputs: Outputs, thresholds: Sequence[float] | None
    ) -> np.ndarray:
        """Returns indices of labels, int `[N]`; or 0 and 1, int `[N, K]`."""
        if not self.is_multi_label:
            return np.asarray(outputs["logits"]).argmax(axis=-1)
        is_predicted = self._probabilities(outputs) >= np.array(thresholds)
        return is_predicted.astype(int)

    def _threshold_scores(self, values: Sequence[float]) -> dict[str, float]:
        keys = (f"{metadata.THRESHOLD_OF}{label}" for label in self.labels)
        return dict(zip(keys, values, strict=True))

    def label_thresholds(
        self, scores: Mapping[str, float]
    ) -> tuple[float, ...] | None:
        """Returns the thresholds that predictions are made with.

        They are the given ones; else those among the scores; None if neither
        is known, or rows have one label.
        """
        if self.thresholds is not None or not self.is_multi_label:
            return self.thresholds
        keys = self._threshold_scores([0.0] * len(self.labels))
        if keys.keys() <= scores.keys():
            return tuple(scores[key] for key in keys)
        return None

    @contextlib.contextmanager
    def open_predictions(
        self, output_dir: str, scores: Mapping[str, float]
    ) -> Iterator[Callable[[Sequence[ClassificationExample], Outputs], None]]:
        """Opens `test_results.tsv` and the submission; see `task.TaskData`.

        `test_results.tsv`, as in the original, has no header and in each row
        the probabilities in the order of the labels (regression: the number
        that the model predicts). The submission has GLUE's header and in each
        row the id and the label (regression: the number, clipped to
        `prediction_range`; several labels: those predicted, separated),
        followed by the true label if it is known. Rows are in the order of
        the examples; numbers have all their digits.
        """
        thresholds = self._thresholds_to_use(scores)
        with prediction_files.open_files(
            output_dir, self.submission_file
        ) as write_row:

            def write(
                examples: Sequence[ClassificationExample], outputs: Outputs
            ) -> None:
                values, predictions = self._answers(outputs, thresholds)
                for example, own, prediction in zip(
                    examples, values, predictions, strict=True
                ):
                    fields = {
                        "index": example.guid,
                        "prediction": self._answer(prediction),
                    }
                    if example.label is not None:
                        fields["label"] = self._label_text(example.label)
                    write_row(own, fields)

            yield write

    def _answers(
        self, outputs: Outputs, thresholds: Sequence[float] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of `test_results.tsv`, and the predictions."""
        if not self.is_regression:
            predictions = self._predictions(outputs, thresholds)
            return self._probabilities(outputs), predictions
        numbers = self._numbers(outputs)
        if self.prediction_range:
            return numbers[:, None], np.clip(numbers, *self.prediction_range)
        return numbers[:, None], numbers

    def _thresholds_to_use(
        self, scores: Mapping[str, float]
    ) -> Sequence[float] | None:
        if not self.is_multi_label:
            return None
        thresholds = self.label_thresholds(scores)
        if thresholds is None:
            _logger.warning(
                "The thresholds of the labels are not known; using %s. Pass "
                "--do_eval to choose those with the best F1.",
                DEFAULT_THRESHOLD,
            )
            return [DEFAULT_THRESHOLD] * len(self.labels)
        return thresholds

    def _answer(self, prediction: Any) -> str:
        """Returns a prediction as text: label, labels, or number."""
        if self.is_regression:
            return prediction_files.digits(prediction)
        if not self.is_multi_label:
            return self.labels[prediction]
        return self.label_separator.join(
            itertools.compress(self.labels, prediction)
        )

    def _label_text(self, label: Any) -> str:
        if self.is_regression:
            return str(label)
        if not self.is_multi_label:
            return self.labels[label]
        return self.label_separator.join(self.labels[place] for place in label)

    def report_sections(
        self,
        examples: Sequence[ClassificationExample],
        outputs: Outputs,
        scores: Mapping[str, float],
    ) -> list[dict[str, Any]]:
        """Returns a table of the scores of each class; none for regression."""
        if self.is_regression:
            return []
        thresholds = self._thresholds_to_use(scores)
        by_label = self._class_scores(
            self._label_array(examples), self._predictions(outputs, thresholds)
        )
        rows = [
            [label, *(f"{score:.6g}" for score in own)]
            for label, own in by_label.items()
        ]
        return [
            {
                "title": "Scores of each class",
                "header": ["label", *_CLASS_SCORES],
                "rows": rows,
            }
        ]

    def _encode(
        self, examples: Sequence[ClassificationExample]
    ) -> list[list[int]]:
        """Returns the ids of the first, then the second text of each."""
        texts = [
            text
            for example in examples
            for text in (example.text_a, example.text_b)
        ]
        ids, lengths = self.tokenizer.encode_batch(texts)
        ends = np.cumsum(lengths).tolist()
        all_ids = ids.tolist()
        return [
            all_ids[end - length : end]
            for end, length in zip(ends, lengths.tolist(), strict=True)
        ]

    def _record(
        self,
        example: ClassificationExample,
        ids_a: list[int],
        ids_b: list[int],
    ) -> Record:
        input_ids, segment_ids = base.encode_pair(
            ids_a,
            ids_b,
            max_seq_length=self.max_seq_length,
            special=self.tokenizer.special_ids,
        )
        return {
            "input_ids": np.array(input_ids, np.int32),
            "input_mask": np.ones(len(input_ids), np.int32),
            "segment_ids": np.array(segment_ids, np.int32),
            "label_ids": self._label_ids(example),
        }

    def _label_ids(self, example: ClassificationExample) -> np.ndarray:
        """Returns the label as the loss takes it, 0 where there is none."""
        label: Any = example.label
        if self.is_multi_label:
            ids = np.zeros(len(self.labels), np.float32)
            ids[list(label or ())] = 1
            return ids
        if not self.is_regression:
            return np.array(label or 0, np.int32)
        number = 0.0 if label is None else label - self.target_mean
        return np.array(number / self.target_scale, np.float32)
