"""Classification and regression, the NumPy half: records, scores, files.

Data flow: examples -> [this file] -> records -> [model] -> logits ->
[this file] -> `eval_results`, `test_results.tsv`, submission.
Floor: tasks. No TensorFlow.

Source: google-research/albert, `classifier_utils` (features, scores) and
`run_classifier` (files of predictions).
"""

import dataclasses
import itertools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import files
from albert_tf.features import ArraySpec
from albert_tf.metrics import classification
from albert_tf.tasks import task
from albert_tf.tasks.classification.examples import ClassificationExample
from albert_tf.tasks.task import Outputs, Record
from albert_tf.text import special_tokens
from albert_tf.text.tokenizer import Tokenizer

_logger = logging.getLogger(__name__)

SCORES: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": classification.accuracy,
    "f1": classification.f1,
    "f1_macro": classification.f1_macro,
    "matthews_correlation": classification.matthews_correlation,
    "pearson": classification.pearson,
    "spearman": classification.spearman,
    "mean_squared_error": classification.mean_squared_error,
}
TEST_RESULTS = "test_results.tsv"

# Examples encoded by one call: more would take more memory, save no time.
_CHUNK_SIZE = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationData:
    """A `task.TaskData`: a label, or a number, for one text or two.

    Args:
        labels: All labels in the order of the logits; empty for regression.
        score_names: Keys of `SCORES`; the first one is the primary metric.
        max_seq_length: Maximum length of a record, with special tokens.
        submission_file: Name of the file with one prediction per row.
        prediction_range: Smallest and largest number in a submission; numbers
            outside are clipped. None for any number.
    """

    name: str
    labels: tuple[str, ...]
    score_names: tuple[str, ...]
    tokenizer: Tokenizer
    max_seq_length: int
    submission_file: str = "predictions.tsv"
    prediction_range: tuple[float, float] | None = None

    @property
    def is_regression(self) -> bool:
        """Whether the task is to predict a number, not a label."""
        return not self.labels

    @property
    def primary_metric(self) -> str:
        """The first of the scores."""
        return self.score_names[0]

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """Ids, mask and segments; and `label_ids`, a float for regression."""
        label_type = "float32" if self.is_regression else "int32"
        return (
            *task.encoder_specs(self.tokenizer.special_ids.pad),
            ArraySpec(name="label_ids", dtype=label_type),
        )

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `TaskData.settings`."""
        return {
            "task": self.name,
            "labels": list(self.labels),
            "max_seq_length": self.max_seq_length,
            "tokenizer": self.tokenizer.hash,
        }

    def records(
        self, examples: Sequence[ClassificationExample], *, is_training: bool
    ) -> Iterator[Record]:
        """Yields one record for each example, in their order.

        Examples without a label get label 0. How many are truncated is logged.
        """
        del is_training
        num_cut = 0
        for start in range(0, len(examples), _CHUNK_SIZE):
            chunk = examples[start : start + _CHUNK_SIZE]
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
                len(examples),
                self.max_seq_length,
            )

    def scores(
        self, examples: Sequence[ClassificationExample], outputs: Outputs
    ) -> dict[str, float]:
        """Returns the task's scores, from `logits`, float `[N, K]`.

        Raises:
            ValueError: An example has no label, or there is none.
        """
        labels = [example.label for example in examples]
        if None in labels:
            guid = examples[labels.index(None)].guid
            raise ValueError(
                f"Example {guid!r} has no label, so it cannot be scored. "
                "Evaluate on labelled examples."
            )
        found = np.array(labels), self._predictions(outputs)
        return {name: SCORES[name](*found) for name in self.score_names}

    def _predictions(self, outputs: Outputs) -> np.ndarray:
        """Returns indices of labels, int `[N]`; or numbers, float `[N]`."""
        logits = np.asarray(outputs["logits"])
        return logits[:, 0] if self.is_regression else logits.argmax(axis=-1)

    def write_predictions(
        self,
        examples: Sequence[ClassificationExample],
        outputs: Outputs,
        output_dir: str,
        scores: Mapping[str, float],
    ) -> list[str]:
        """Writes `test_results.tsv` and the submission; returns their paths.

        `test_results.tsv`, as in the original, has no header and in each row
        the probabilities in the order of the labels (regression: the number
        that the model predicts). The submission has GLUE's header and in each
        row the id and the label (regression: the number, clipped to
        `prediction_range`), followed by the true label if all are known. Rows
        are in the order of the examples; numbers have all their digits.
        """
        del scores
        values = np.asarray(outputs["logits"], np.float32)
        predictions = self._predictions(outputs)
        labels = [example.label for example in examples]
        if self.is_regression:
            if self.prediction_range:
                predictions = np.clip(predictions, *self.prediction_range)
            answers = [_digits(number) for number in predictions]
        else:
            values = classification.softmax(values)
            answers = [self.labels[index] for index in predictions]
        columns = {
            "index": [example.guid for example in examples],
            "prediction": answers,
        }
        if None not in labels:
            columns["label"] = [
                str(label)
                if self.is_regression
                else self.labels[int(label or 0)]
                for label in labels
            ]
        test_results = os.path.join(output_dir, TEST_RESULTS)
        _write_rows(test_results, (map(_digits, row) for row in values))
        submission = os.path.join(output_dir, self.submission_file)
        rows = zip(*columns.values(), strict=True)
        _write_rows(submission, itertools.chain([columns], rows))
        return [test_results, submission]

    def report_sections(
        self,
        examples: Sequence[ClassificationExample],
        outputs: Outputs,
        scores: Mapping[str, float],
    ) -> list[dict[str, Any]]:
        """Returns no sections."""
        del examples, outputs, scores
        return []

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
        input_ids, segment_ids = special_tokens.encode_pair(
            ids_a,
            ids_b,
            max_seq_length=self.max_seq_length,
            special=self.tokenizer.special_ids,
        )
        label_type = np.float32 if self.is_regression else np.int32
        return {
            "input_ids": np.array(input_ids, np.int32),
            "input_mask": np.ones(len(input_ids), np.int32),
            "segment_ids": np.array(segment_ids, np.int32),
            "label_ids": np.array(example.label or 0, label_type),
        }


def _write_rows(path: str, rows: Iterable[Iterable[str]]) -> None:
    files.write_text(path, "".join("\t".join(row) + "\n" for row in rows))


def _digits(number: np.floating) -> str:
    """Writes all digits of a float32.

    With fewer digits, correlations computed from the file as float64 would
    differ from the reported ones, if the numbers hardly differ.
    """
    return str(float(np.float32(number)))
