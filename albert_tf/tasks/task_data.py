"""The data half of a task, as the training loop and the commands see it.

It is NumPy: examples -> records -> [model half, `task.py`] -> outputs -> scores
and files.
"""

import abc
import contextlib
import dataclasses
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    TypeAlias,
    TypeVar,
)

import numpy as np

from albert_tf import files
from albert_tf.data.record_columns import RecordColumns
from albert_tf.features import ArraySpec
from albert_tf.metrics.scores import Scores
from albert_tf.settings import SettingValues
from albert_tf.tasks import label_frequencies
from albert_tf.tasks.label_frequencies import Comparison
from albert_tf.text.base import Tokenizer

# A sequence of the task's dataclasses; or, to predict, an iterable with a
# length that reads them anew each time. Each has a `guid: str`.
Examples: TypeAlias = Any
Record: TypeAlias = dict[str, np.ndarray]
# By name, one row for each record: arrays `[N, ...]`, or, for outputs along
# the sequence, lists of N arrays, each as long as its record.
Outputs: TypeAlias = Mapping[str, np.ndarray | list[np.ndarray]]
# Values by the name that `load_predictor` lists.
TextAnswer: TypeAlias = files.JsonObject
# A table (`title`, `header`, `rows` of text) or a chart (`title`, `unit`,
# `curves` of points by name, `x_label`) of `report.html`.
Section: TypeAlias = files.JsonObject

# The split of a data set that each use reads.
SPLITS = {"train": "train", "eval": "dev", "predict": "test"}
# Fewer records say too little for a comparison with chance.
LEAST_RECORDS = 16
_CORRELATIONS = ("pearson", "spearman", "matthews_correlation")


class Predictions(NamedTuple):
    """Labels and predictions of N examples: classes, or numbers.

    Classes are int `[N]`, or 0 and 1 `[N, K]` where an example has any number
    of labels; then they have `probabilities` `[N, K]` and perhaps K `names`.
    """

    labels: np.ndarray
    predictions: np.ndarray
    probabilities: np.ndarray | None = None
    names: Sequence[str] = ()


class Labelled(NamedTuple):
    """Labels of a kind, of which each of N texts or words has exactly one.

    `names` are the K labels. `examples` are the indices of the examples, and
    `words` are empty if the texts have the labels.
    """

    labels: np.ndarray  # int [N]
    probabilities: np.ndarray  # [N, K]
    names: Sequence[str]
    examples: np.ndarray  # int [N]
    words: Sequence[str] = ()


class SimpleInputs(NamedTuple):
    """Examples as `metrics.simple_models` takes them.

    `kind` is "tfidf", or "linear" where words have the labels. `texts` are two
    texts of each of N examples, or its words. `labels` are None if nothing is
    to be trained. Of numbers, `num_labels` is 0.
    """

    kind: str
    texts: Sequence[Sequence[str]]
    labels: np.ndarray | None = None
    num_labels: int = 0


class AnswerData(abc.ABC):
    """Base class of the data half that answers texts."""

    if TYPE_CHECKING:
        # Fields of a dataclass, or properties.
        @property
        def tokenizer(self) -> Tokenizer:
            """The tokenizer that makes the records."""

        @property
        def max_seq_length(self) -> int:
            """S: length in tokens of the longest record."""

    @property
    @abc.abstractmethod
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """The arrays of a record."""

    @abc.abstractmethod
    def records(
        self, examples: Examples, *, is_training: bool
    ) -> Iterator[Record]:
        """Yields the records of examples: one or several, in their order."""

    @abc.abstractmethod
    def answers(
        self, examples: Examples, outputs: Outputs
    ) -> Iterator[TextAnswer]:
        """Yields the answer to each example, as `load_predictor` gives it."""


class TaskData(AnswerData):
    """Base class of the data half: makes records, and scores outputs.

    Whatever a run may ask of a task is a method or an attribute here. Defaults
    suit tasks with one record for each example, whose outputs `logits` predict
    one array of the record.
    """

    # Why `compare_losses` returns None although there are enough records.
    no_loss_reason: ClassVar[str] = "all labels are equal"
    # Whether a part of the examples may be a set of its own.
    has_folds: ClassVar[bool] = False

    if TYPE_CHECKING:

        @property
        def name(self) -> str:
            """Name of the task, such as `cola`."""

    @property
    @abc.abstractmethod
    def primary_metric(self) -> str:
        """Key of the score that selects the best weights; higher is better."""

    @property
    def metric_range(self) -> tuple[float, float]:
        """The lowest and the highest value of the primary metric."""
        return -1.0 if self.primary_metric in _CORRELATIONS else 0.0, 1.0

    @property
    def label_array(self) -> str:
        """The array of a record that `logits` are compared with; "" if none."""
        return "label_ids"

    @property
    def is_regression(self) -> bool:
        """Whether the labels are numbers, not classes."""
        return False

    @property
    def class_weights(self) -> tuple[float, ...]:
        """Weights of the classes in the loss; empty if all are 1."""
        return ()

    @property
    def goal(self) -> str:
        """The goal of the thresholds that an evaluation chooses, if any."""
        return ""

    @property
    @abc.abstractmethod
    def settings(self) -> SettingValues:
        """The settings of the task that a run stores, as JSON values.

        Such as labels and lengths; `tokenizer` is its fingerprint. `run.json`
        holds them, and `Checkpoint.settings` reads them back.
        """

    @abc.abstractmethod
    def scores(self, examples: Examples, outputs: Outputs) -> Scores:
        """Returns the official scores, and thresholds chosen by them."""

    @staticmethod
    def texts_of(example: Any) -> object:
        """Returns the texts of an example, equal ones of which share a fold."""
        return dataclasses.replace(example, guid="", label=None)

    def of_training(self, examples: Examples) -> "TaskData":
        """Returns the data half whose baselines know these examples alone."""
        return self

    def of_folds(self, folds: tuple[int, ...]) -> "TaskData":
        """Returns the data half for outputs of several models, one a fold."""
        return self

    def keys_of(self, columns: RecordColumns) -> Iterator[bytes]:
        """Yields a key for each record; it is the same for equal texts."""
        # Columns of different sets may have different types.
        ids = columns.values["input_ids"].astype(np.int32)
        # Multiple choice: the ids of all choices of a record.
        width = len(ids) // max(1, int(columns.lengths.sum()))
        ends = np.cumsum(columns.lengths * width)
        return (row.tobytes() for row in np.split(ids, ends[:-1]))

    def with_decision(self, scores: Scores) -> "TaskData":
        """Returns the data half with the thresholds of another evaluation."""
        return self

    def score_of_rows(
        self, examples: Examples, outputs: Outputs, scores: Scores
    ) -> Callable[[np.ndarray], float] | None:
        """Returns a function from some examples to their primary metric.

        It takes indices of examples, int `[N]`. `scores` are the scores of all
        examples. None if an example has several records, or none.
        """
        if any(len(rows) != len(examples) for rows in outputs.values()):
            return None

        def score(indices: np.ndarray) -> float:
            some = {
                n: [rows[i] for i in indices] for n, rows in outputs.items()
            }
            chosen = [examples[i] for i in indices]
            return self.scores(chosen, some)[self.primary_metric]

        return score

    @abc.abstractmethod
    def baselines(
        self, examples: Examples, start_outputs: Outputs | None = None
    ) -> dict[str, float]:
        """Returns scores of the best single answer to all examples, by name.

        Such as the largest class, the mean, no answer, or a choice by chance.
        `start_outputs` are the outputs before the training, if the
        model half has `compares_start`.
        """

    def simple_inputs(self, examples: Examples) -> SimpleInputs | None:
        """Returns labelled examples for a simple model; None if it has none."""
        return None

    def simple_logits(self, examples: Examples, logits: np.ndarray) -> Any:
        """Returns the logits of a simple model, one row for each record."""
        return logits

    def simple_scores(self, examples: Examples, logits: Any) -> Scores:
        """Returns the scores of the `simple_logits`."""
        return self.scores(examples, {"logits": logits})

    def compare_with_chance(
        self, columns: RecordColumns, outputs: Outputs
    ) -> Comparison | None:
        """Compares the loss with the loss of predicting label frequencies.

        Returns None for few records, for labels that are all equal, and if
        `compare_losses` does.
        """
        if columns.num_records < LEAST_RECORDS:
            return None
        comparison = self.compare_losses(columns, outputs)
        return comparison if comparison and comparison.chance_loss else None

    def compare_losses(
        self, columns: RecordColumns, outputs: Outputs
    ) -> Comparison | None:
        """Compares `logits` with `label_array`; None if one is missing.

        Labels along the sequence count where they are not negative.
        """
        specs = {spec.name: spec for spec in columns.specs}
        if self.label_array not in specs or "logits" not in outputs:
            return None
        if specs[self.label_array].is_sequence:
            labels = columns.values[self.label_array]
            logits = np.concatenate(outputs["logits"])[labels >= 0]
            labels = labels[labels >= 0]
        else:
            labels = columns.field(self.label_array)
            logits = np.asarray(outputs["logits"])
        if self.is_regression:
            return label_frequencies.compare_numbers(labels, logits)
        return label_frequencies.compare_labels(
            labels, logits, self.class_weights
        )

    def why_not_compared(self, columns: RecordColumns) -> str:
        """Says why `compare_with_chance` returns None."""
        reason = self.no_loss_reason
        if columns.num_records < LEAST_RECORDS:
            reason = f"there are fewer than {LEAST_RECORDS} records"
        elif not self.label_array:
            reason = "its loss has no known level of chance"
        elif self.label_array not in {spec.name for spec in columns.specs}:
            reason = f"records have no array {self.label_array!r}"
        return (
            "The results have no `loss`, and the model is not compared with "
            f"chance: {reason}."
        )

    @contextlib.contextmanager
    def open_predictions(
        self, output_dir: str, scores: Scores
    ) -> Iterator[Callable[[Examples, Outputs], None]]:
        """Opens the files of predictions; yields a function that writes some.

        They appear when the context ends without an error; by default,
        `predictions.jsonl` has the id and the answer of each example. The
        `scores` are empty if nothing was evaluated. Examples may have no
        labels.
        """
        path = os.path.join(output_dir, "predictions.jsonl")
        with files.atomic_write(path) as file:

            def write(examples: Examples, outputs: Outputs) -> None:
                answers = self.answers(examples, outputs)
                for example, answer in zip(examples, answers, strict=True):
                    line = json.dumps({"id": example.guid, **answer})
                    file.write(f"{line}\n".encode())

            yield write

    def predictions_of(
        self, examples: Examples, outputs: Outputs, scores: Scores
    ) -> Predictions | None:
        """Returns the predictions whose errors `report.html` shows, if any."""
        return None

    def labelled(
        self, examples: Examples, outputs: Outputs, scores: Scores
    ) -> Iterator[Labelled]:
        """Yields the labels of the examples, by default of `predictions_of`.

        Where an example has any number of labels, each is a question of its
        own, with the labels `not <name>` and `<name>`.
        """
        predicted = self.predictions_of(examples, outputs, scores)
        if predicted is None or predicted.probabilities is None:
            return
        labels, names = predicted.labels, predicted.names
        probabilities = predicted.probabilities
        rows = np.arange(len(labels))
        if labels.ndim == 1:
            names = names or [*map(str, range(probabilities.shape[1]))]
            yield Labelled(labels, probabilities, names, rows)
            return
        for name, own, shares in zip(
            names, labels.T, probabilities.T, strict=True
        ):
            both = np.stack([1 - shares, shares], axis=1)
            yield Labelled(own, both, (f"not {name}", name), rows)

    def report_sections(
        self, examples: Examples, outputs: Outputs, scores: Scores
    ) -> list[Section]:
        """Returns the task's own sections of `report.html`; by default none."""
        return []


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ExampleSet:
    """Examples that are trained on, evaluated or predicted together.

    The main set has no name. Another name ends the keys of the set's scores,
    and is the directory of its predictions; `eval_<name>` if it is evaluated.
    """

    examples: Examples
    data: TaskData
    name: str = ""

    def chunks(self, size: int) -> Iterator[Examples]:
        """Yields the examples in chunks; a table is read as they are wanted."""
        if isinstance(self.examples, Sequence):
            for first in range(0, len(self.examples), size):
                yield self.examples[first : first + size]
            return
        rest = iter(self.examples)
        while chunk := list(itertools.islice(rest, size)):
            yield chunk


AnySet = TypeVar("AnySet", bound=ExampleSet, covariant=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sets(Generic[AnySet]):
    """The sets of a run, at least one; the first evaluation selects weights."""

    train: AnySet | None = None
    evaluation: tuple[AnySet, ...] = ()
    prediction: tuple[ExampleSet, ...] = ()

    @property
    def all(self) -> tuple[ExampleSet, ...]:
        """All sets, the training set first."""
        train = (self.train,) if self.train else ()
        return (*train, *self.evaluation, *self.prediction)

    @property
    def data(self) -> TaskData:
        """The data half of the first set, which describes the whole run."""
        return self.all[0].data


def sets_by_use(sets: Mapping[str, Sequence[ExampleSet]]) -> Sets[ExampleSet]:
    """Returns the sets of a run from its sets by use, such as `train`."""
    return Sets(
        train=sets["train"][0] if "train" in sets else None,
        evaluation=tuple(sets.get("eval", ())),
        prediction=tuple(sets.get("predict", ())),
    )


def one_set_each(
    examples: Mapping[str, Examples], data: TaskData
) -> Sets[ExampleSet]:
    """Returns the sets of a run that has one set for each use."""
    return sets_by_use(
        {
            use: [ExampleSet(examples=rows, data=data)]
            for use, rows in examples.items()
        }
    )
