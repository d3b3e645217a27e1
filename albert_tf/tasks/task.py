"""The two halves of a task, as the training loop and the commands see them.

The data half (`TaskData`) is NumPy: examples -> records -> [model] -> outputs
-> scores and files. The model half (`Task`, `AnswerTask`) is Keras, which is
not imported here: a command checks its data before that.
"""

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.features import ArraySpec
from albert_tf.metrics.scores import Scores
from albert_tf.text import base
from albert_tf.text.base import SpecialIds, Tokenizer

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from albert_tf.modeling import fused
    from albert_tf.tasks.finetuning import MeanLossTask

Batch: TypeAlias = "Mapping[str, tf.Tensor]"
Totals: TypeAlias = "dict[str, tf.Tensor]"
# A sequence of the task's dataclasses; or, to predict, an iterable with a
# length that reads them anew each time. Each has a `guid: str`.
Examples: TypeAlias = Any
Record: TypeAlias = dict[str, np.ndarray]
# By name, one row for each record: arrays `[N, ...]`, or, for outputs along
# the sequence, lists of N arrays, each as long as its record.
Outputs: TypeAlias = Mapping[str, np.ndarray | list[np.ndarray]]

# The split of a data set that each use reads.
SPLITS = {"train": "train", "eval": "dev", "predict": "test"}
# Of a run that has no weights before its training.
NO_WEIGHTS = Checkpoint()


class AnswerData(Protocol):
    """The data half of what answers texts."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that the records are made with."""

    @property
    def max_seq_length(self) -> int:
        """S: length in tokens of the longest record."""

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """The arrays of a record."""

    def records(
        self, examples: Examples, *, is_training: bool
    ) -> Iterator[Record]:
        """Yields the records of examples: one or several, in their order."""

    def answers(
        self, examples: Examples, outputs: Outputs
    ) -> Iterator[dict[str, Any]]:
        """Yields the answer to each example, as `load_predictor` gives it."""


class TaskData(AnswerData, Protocol):
    """The data half: turns examples into records, and outputs into scores.

    `training.baselines` compares the `label_ids` of records with chance. Most
    have `score_of_rows`, with the arguments of `report_sections`: it returns a
    function of indices of examples, int `[N]`, to their primary metric.
    """

    @property
    def name(self) -> str:
        """Name of the task, such as `cola`."""

    @property
    def primary_metric(self) -> str:
        """Key of the score that selects the best weights; higher is better."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What a run keeps of the task besides its examples, as JSON values.

        Such as labels and lengths; `tokenizer` is its fingerprint. `run.json`
        holds them, and `Checkpoint.settings` reads them back.
        """

    def scores(self, examples: Examples, outputs: Outputs) -> Scores:
        """Returns the official scores, and thresholds chosen by them."""

    def baselines(self, examples: Examples) -> dict[str, float]:
        """Returns scores of the best single answer to all examples, by name.

        Such as the largest class, the mean, no answer, or a choice by chance.
        """

    def open_predictions(
        self, output_dir: str, scores: Scores
    ) -> contextlib.AbstractContextManager[Callable[[Examples, Outputs], None]]:
        """Opens the files of predictions; its function writes the next ones.

        They appear when the context ends without an error. `scores` are those
        of the evaluation, empty without one. Examples may have no labels.
        """

    def report_sections(
        self, examples: Examples, outputs: Outputs, scores: Scores
    ) -> list[dict[str, Any]]:
        """Returns the task's own sections of `report.html`; may be empty.

        Each is a table (`title`, `header`, `rows` of text) or a chart (`title`,
        `unit`, `curves` of points by name, `x_label`).
        """


def encoder_specs(
    pad_id: int, shape: tuple[int, ...] = ()
) -> tuple[ArraySpec, ...]:
    """Returns the arrays of a record that the encoder takes, `[*shape, s]`."""
    pad_values = {"input_ids": pad_id, "input_mask": 0, "segment_ids": 0}
    return tuple(
        ArraySpec(
            name=name,
            dtype="int32",
            shape=shape,
            is_sequence=True,
            pad_value=pad_value,
        )
        for name, pad_value in pad_values.items()
    )


def pair_record(
    data: AnswerData, ids_a: list[int], ids_b: Sequence[int] = ()
) -> Record:
    """Returns the arrays of `encoder_specs` of one text, or of two."""
    ids, segment_ids = base.encode_pair(
        ids_a,
        ids_b,
        max_seq_length=data.max_seq_length,
        special=data.tokenizer.special_ids,
    )
    return {
        "input_ids": np.array(ids, np.int32),
        "input_mask": np.ones(len(ids), np.int32),
        "segment_ids": np.array(segment_ids, np.int32),
    }


def two_text_record(
    ids_a: np.ndarray, ids_b: np.ndarray, special: SpecialIds
) -> Record:
    """Returns the arrays of `encoder_specs` of two texts that fit together."""
    start = len(ids_a) + special.num_around(2) - 1
    input_ids = np.full(start + len(ids_b) + 1, special.sep, np.int32)
    input_ids[0] = special.cls or 0
    input_ids[1 : start - 1] = ids_a
    input_ids[start:-1] = ids_b
    segment_ids = np.zeros(len(input_ids), np.int32)
    segment_ids[start:] = 1
    return {
        "input_ids": input_ids,
        "input_mask": np.ones(len(input_ids), np.int32),
        "segment_ids": segment_ids,
    }


def stacked_record(rows: Sequence[Record], pad_id: int) -> Record:
    """Returns the arrays of C sequences, `[C, s]`, padded to the longest."""
    shape = (len(rows), max(len(row["input_ids"]) for row in rows))
    arrays = {
        spec.name: np.full(shape, spec.pad_value, np.int32)
        for spec in encoder_specs(pad_id)
    }
    for i, row in enumerate(rows):
        for name, values in row.items():
            arrays[name][i, : len(values)] = values
    return arrays


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ExampleSet:
    """Examples that are trained on, evaluated or predicted together.

    The name of another set than the main one follows the keys of its scores,
    and is the directory of its predictions; an evaluation's is `eval_<name>`.
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
        """All sets, those to train on first."""
        train = (self.train,) if self.train else ()
        return (*train, *self.evaluation, *self.prediction)

    @property
    def data(self) -> TaskData:
        """The data half of the first set, which speaks for the whole run."""
        return self.all[0].data


def sets_by_use(sets: Mapping[str, Sequence[ExampleSet]]) -> Sets[ExampleSet]:
    """Returns the sets of a run from those of each use, such as `train`."""
    return Sets(
        train=sets["train"][0] if "train" in sets else None,
        evaluation=tuple(sets.get("eval", ())),
        prediction=tuple(sets.get("predict", ())),
    )


class Task(Protocol):
    """The model half: a model, and a loss that is a sum over its targets.

    The training loop adds up `loss_denominators` over a step before it computes
    a loss, so that all targets of the global batch have the same weight.
    """

    model: "keras.Model"

    @property
    def total_names(self) -> tuple[str, ...]:
        """Keys of the metric totals that `loss` returns."""

    def loss_denominators(self, batch: Batch) -> Totals:
        """Returns, by loss, the float32 `[]` weight of the batch's targets."""

    def loss(
        self,
        batch: Batch,
        loss_denominators: Totals,
        *,
        seed: "tf.Tensor | None",
        depth: int | None = None,
        random_depth: bool = False,
        recompute: bool = False,
        fusion: "fused.Fusion | None" = None,
    ) -> "tuple[tf.Tensor, Totals]":
        """Returns this batch's share of the loss, and its metric totals.

        Args:
            batch: Tensors of one micro-batch.
            loss_denominators: Those of the whole global batch.
            seed: int32 `[2]` for dropout in training; None in evaluation.
            depth: Number of layers to compute; None for all.
            random_depth: Whether the loss is the mean of two: of all layers,
                and of a smaller number of them that `seed` decides.
            recompute: Whether to save memory in the backward pass.
            fusion: How to compute on a CPU.
        """

    def training_scores(self, totals: Mapping[str, float]) -> dict[str, float]:
        """Returns the values to log for a step, from its metric totals."""


class AnswerTask:
    """The model half of what answers examples: outputs of a model, as they are.

    The model is of Keras, or an export in its place. `sequence_outputs` are the
    names of the outputs whose second axis is the sequence.
    """

    def __init__(
        self, model: Any, sequence_outputs: frozenset[str] = frozenset()
    ) -> None:
        self.model = model
        self.sequence_outputs = sequence_outputs

    @property
    def min_length(self) -> int:
        """The least length of a batch, in tokens."""
        return 1

    def outputs(self, batch: Batch) -> Totals:
        """Returns the outputs of the model, without dropout."""
        return dict(self.model(self.model.inputs_of(batch), training=False))

    def final_outputs(self, batch: Batch) -> Totals:
        """Returns the outputs that final scores and predictions are made of.

        They are float32 or int32 `[B, ...]`: those of the model, or, with early
        exit, of the layer at which each example leaves, and its number,
        `num_layers` int32 `[B]`.
        """
        return self.outputs(batch)


# Makes the model half, of a config, `seed` and Keras's dtype policy, `dtype`;
# called in the scope of the strategy.
MakeTask: TypeAlias = "Callable[..., MeanLossTask]"
