"""Multiple choice, the data half: records, accuracy, predictions.

Data flow: examples -> records -> [model] -> logits -> scores, files.
Source: google-research/albert, `run_race.py`; Lai et al. 2017 (levels).
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from albert_tf import files
from albert_tf.features import ArraySpec
from albert_tf.metrics import classification
from albert_tf.metrics.scores import Score, Scores
from albert_tf.tasks import error_tables, task
from albert_tf.tasks.race import examples as examples_lib
from albert_tf.tasks.race.examples import ChoiceLengths, MultipleChoiceExample
from albert_tf.tasks.task import Outputs, Record
from albert_tf.text.tokenizer import Tokenizer

PREDICTIONS_FILE = "predictions.jsonl"
SCORES_FILE = "predict_results.json"
_Examples: TypeAlias = Sequence[MultipleChoiceExample]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultipleChoiceData:
    """A `task.TaskData` of `MultipleChoiceExample`s with C = `num_choices`.

    Its outputs are `logits` `[N, C]`.
    """

    name = "race"
    primary_metric = "accuracy"

    tokenizer: Tokenizer
    lengths: ChoiceLengths
    num_choices: int = 4

    @property
    def max_seq_length(self) -> int:
        """S, in tokens."""
        return self.lengths.max_seq_length

    @property
    def array_specs(self) -> tuple[ArraySpec, ...]:
        """The arrays of a record."""
        pad_id = self.tokenizer.special_ids.pad
        return (
            *task.encoder_specs(pad_id, (self.num_choices,)),
            ArraySpec(name="label_ids", dtype="int32"),
        )

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `TaskData.settings`."""
        return {
            "task": self.name,
            **dataclasses.asdict(self.lengths),
            "num_choices": self.num_choices,
            **self.tokenizer.identity(),
        }

    def records(
        self, examples: _Examples, *, is_training: bool
    ) -> Iterator[Record]:
        """Yields a record for each example; without an answer, of label 0."""
        yield from examples_lib.make_records(
            examples, self.tokenizer, self.lengths
        )

    def scores(self, examples: _Examples, outputs: Outputs) -> Scores:
        """Returns `accuracy`; by level, `accuracy_middle`, `accuracy_high`."""
        is_correct = self._is_correct(examples, outputs)
        levels = np.array([example.level for example in examples])
        entries = [Score("accuracy", float(np.mean(is_correct)))]
        for level in examples_lib.LEVELS:
            if np.any(levels == level):
                accuracy = float(np.mean(is_correct[levels == level]))
                entries.append(Score(f"accuracy_{level}", accuracy))
        return Scores(entries=tuple(entries))

    def _is_correct(self, examples: _Examples, outputs: Outputs) -> np.ndarray:
        labels = np.array(examples_lib.known_labels(examples))
        found: np.ndarray = np.argmax(outputs["logits"], axis=-1) == labels
        return found

    def score_of_rows(
        self, examples: _Examples, outputs: Outputs, scores: Scores
    ) -> Callable[[np.ndarray], float]:
        """See `task.TaskData`."""
        is_correct = self._is_correct(examples, outputs)
        return lambda rows: float(is_correct[rows].mean())

    def baselines(self, examples: _Examples) -> dict[str, float]:
        """Returns the accuracy of a choice by chance."""
        return {self.primary_metric: 1 / self.num_choices}

    @contextlib.contextmanager
    def open_predictions(
        self, output_dir: str, scores: Scores
    ) -> Iterator[Callable[[_Examples, Outputs], None]]:
        """Opens `predictions.jsonl`; see `task.TaskData`.

        A line has `id`, `level` if there is one, `probabilities` in the order
        of the options, `prediction` (a letter) and, if it is known, `answer`,
        with the question.
        If all answers are known, `predict_results.json` has the scores.
        """
        scores_path = os.path.join(output_dir, SCORES_FILE)
        files.remove(scores_path)
        examples: list[MultipleChoiceExample] = []
        logits: list[np.ndarray] = []
        path = os.path.join(output_dir, PREDICTIONS_FILE)
        with files.atomic_write(path) as file:

            def write(chunk: _Examples, outputs: Outputs) -> None:
                examples.extend(chunk)
                logits.extend(outputs["logits"])
                letters = examples_lib.LETTERS
                answers = self.answers(chunk, outputs)
                for example, answer in zip(chunk, answers, strict=True):
                    row: dict[str, Any] = {"id": example.guid}
                    if example.level:
                        row["level"] = example.level
                    row["probabilities"] = answer["probabilities"]
                    row["prediction"] = letters[answer["choice"]]
                    if example.label is not None:
                        row["answer"] = letters[example.label]
                        row["question"] = example.question
                    file.write((json.dumps(row) + "\n").encode())

            yield write
        if all(example.label is not None for example in examples):
            scores = self.scores(examples, {"logits": np.array(logits)})
            files.write_json(scores_path, scores.flat())

    def answers(
        self, examples: _Examples, outputs: Outputs
    ) -> Iterator[dict[str, Any]]:
        """Yields `choice`, `option`, `probabilities`; see `load_predictor`."""
        for example, logits in zip(examples, outputs["logits"], strict=True):
            # The largest logit: two probabilities may be rounded to the same.
            choice = int(np.argmax(logits))
            yield {
                "choice": choice,
                "option": example.options[choice],
                "probabilities": classification.softmax(logits).tolist(),
            }

    def report_sections(
        self, examples: _Examples, outputs: Outputs, scores: Scores
    ) -> list[dict[str, Any]]:
        """Returns tables of the errors."""
        labels = np.array(examples_lib.known_labels(examples))
        logits = np.asarray(outputs["logits"])
        return error_tables.prediction_sections(
            examples,
            labels,
            logits.argmax(axis=-1),
            classification.softmax(logits),
        )
