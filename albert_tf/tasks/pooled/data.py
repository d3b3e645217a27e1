"""The data half of a `PooledHead`: records, scores, predictions.

Data flow: texts -> records -> [model] -> logits -> scores, answers, files.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf.features import ArraySpec
from albert_tf.metrics.scores import Scores
from albert_tf.settings import SettingValues
from albert_tf.tasks import encoder_records
from albert_tf.tasks.task_data import Outputs, Record, TaskData, TextAnswer
from albert_tf.text.base import Tokenizer

if TYPE_CHECKING:
    from albert_tf.tasks.pooled.head import PooledHead

# Values of `PooledHead.loss`.
SQUARED_ERROR = "squared_error"
CROSS_ENTROPY = "cross_entropy"
BINARY_CROSS_ENTROPY = "binary_cross_entropy"
OTHER = "other"
LOSSES = (SQUARED_ERROR, CROSS_ENTROPY, BINARY_CROSS_ENTROPY, OTHER)
_LABELS = "labels"  # array of a record
_Examples = Sequence["PooledExample"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PooledExample:
    """One text or two; the label is float `[K]`, a class `[]`, or unknown."""

    guid: str
    text_a: str
    text_b: str = ""
    label: Any = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class PooledData(TaskData):
    """The data half of a `PooledHead`, whose outputs are `logits` `[N, K]`."""

    has_folds = True

    head: "PooledHead"
    tokenizer: Tokenizer
    max_seq_length: int
    validation: list[object] | None = None

    @property
    def name(self) -> str:
        """Name of the head."""
        return self.head.name

    @property
    def primary_metric(self) -> str:
        """The first of the scores of the head."""
        return self.head.primary_metric

    @property
    def label_array(self) -> str:
        """The array that `logits` are compared with; "" for another loss."""
        return "" if self.head.loss == OTHER else _LABELS

    @property
    def is_regression(self) -> bool:
        """Whether the labels are numbers."""
        return self.head.loss == SQUARED_ERROR

    @property
    def _has_classes(self) -> bool:
        return self.head.loss == CROSS_ENTROPY

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """The arrays of the encoder, and `labels`."""
        labels = ArraySpec(
            name=_LABELS,
            dtype="int32" if self._has_classes else "float32",
            shape=() if self._has_classes else (self.head.num_outputs,),
        )
        return encoder_records.array_specs(self.tokenizer, labels)

    @property
    def settings(self) -> SettingValues:
        """See `TaskData.settings`."""
        return {
            "task": self.name,
            "loss": self.head.loss,
            "max_seq_length": self.max_seq_length,
            **self.tokenizer.identity(),
            "text_columns": list(self.head.text_columns),
            "validation": self.validation,
        }

    def records(
        self, examples: _Examples, *, is_training: bool
    ) -> Iterator[Record]:
        """Yields a record of each example; an unknown label is 0."""
        labels = self.array_specs[-1]
        nothing = np.zeros(labels.shape)
        for each in examples:
            ids = map(self.tokenizer.encode, (each.text_a, each.text_b))
            label = nothing if each.label is None else each.label
            yield {
                **encoder_records.of_pair(self, *ids),
                labels.name: np.asarray(label, labels.dtype),
            }

    def _labels(self, examples: _Examples) -> np.ndarray:
        labels = np.array([each.label for each in examples])
        return labels.astype(int) if self._has_classes else labels

    def scores(self, examples: _Examples, outputs: Outputs) -> Scores:
        """Returns the scores of the head."""
        logits = np.asarray(outputs["logits"])
        scores = self.head.scores(self._labels(examples), logits)
        if not isinstance(scores, Scores):
            raise ValueError(
                f"`scores` of the head {self.name} must return "
                f"`albert_tf.Scores`. Received: {scores!r}."
            )
        return scores

    def baselines(
        self, examples: _Examples, start_outputs: Outputs | None = None
    ) -> dict[str, float]:
        """Returns the primary metric of the mean label, for all examples.

        Of another loss, which logits predict the mean is unknown.
        """
        if self.head.loss == OTHER:
            return {}
        labels = self._labels(examples)
        if self._has_classes:
            labels = np.eye(self.head.num_outputs)[labels]
        mean = labels.mean(axis=0)
        if self.head.loss == BINARY_CROSS_ENTROPY:
            # A label is predicted where its logit is above 0.
            mean = mean - 0.5
        logits = np.tile(mean, (len(labels), 1))
        scores = self.scores(examples, {"logits": logits})
        return {self.primary_metric: scores[self.primary_metric]}

    def answers(
        self, examples: _Examples, outputs: Outputs
    ) -> Iterator[TextAnswer]:
        """Yields the answers of the head, as numbers and lists of Python."""
        answers = self.head.answers(np.asarray(outputs["logits"]))
        columns = [np.asarray(column).tolist() for column in answers.values()]
        for row in zip(*columns, strict=True):
            yield dict(zip(answers, row, strict=True))
