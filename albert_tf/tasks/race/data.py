"""Multiple choice, the data half: records, accuracy, predictions.

Data flow: examples -> records -> [model] -> logits -> scores, files.

A record has a row for each choice: `[CLS] article [SEP] question and option
[SEP]`, with segment ids 0 up to the first `[SEP]` and 1 after it. If a choice
is too long, question and option keep their last tokens, the article its first.

Source: Lai et al. 2017 (levels); google-research/albert, `race_utils`.
"""

import contextlib
import dataclasses
import itertools
import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from albert_tf import files
from albert_tf.features import ArraySpec
from albert_tf.metrics import classification
from albert_tf.metrics.scores import Score, Scores
from albert_tf.settings import SettingValues
from albert_tf.tasks import encoder_records
from albert_tf.tasks.lengths import NUM_SPECIAL_TOKENS
from albert_tf.tasks.race import examples as examples_lib
from albert_tf.tasks.race.examples import ChoiceLengths, MultipleChoiceExample
from albert_tf.tasks.task_data import (
    Outputs,
    Predictions,
    Record,
    TaskData,
    TextAnswer,
)
from albert_tf.text.base import Tokenizer

_LOGGER = logging.getLogger(__name__)

PREDICTIONS_FILE = "predictions.jsonl"
SCORES_FILE = "predict_results.json"
# Questions encoded by one call: more would take more memory, save no time.
QUESTIONS_PER_CALL = 256
_Examples: TypeAlias = Sequence[MultipleChoiceExample]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultipleChoiceData(TaskData):
    """The data half of `MultipleChoiceExample`s with C = `num_choices`.

    Its outputs are `logits` `[N, C]`.
    """

    name = "race"
    primary_metric = "accuracy"
    has_folds = True

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
        label_ids = ArraySpec(name="label_ids", dtype="int32")
        return encoder_records.array_specs(
            self.tokenizer, label_ids, shape=(self.num_choices,)
        )

    @property
    def settings(self) -> SettingValues:
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
        """Yields a record for each example; without an answer, of label 0.

        Its rows are padded to the longest choice.
        """
        num_cut_articles = num_cut_questions = 0
        longest = self.lengths.max_qa_length
        special = self.tokenizer.special_ids
        room = self.max_seq_length - NUM_SPECIAL_TOKENS
        for first in range(0, len(examples), QUESTIONS_PER_CALL):
            chunk = examples[first : first + QUESTIONS_PER_CALL]
            # Neighbours share their article, which is encoded once.
            texts = [(e.article, *e.choice_texts()) for e in chunk]
            distinct = list(dict.fromkeys(itertools.chain(*texts)))
            encoded, sizes = self.tokenizer.encode_batch(distinct)
            parts = np.split(encoded, np.cumsum(sizes)[:-1])
            ids = dict(zip(distinct, parts, strict=True))
            for example, own_texts in zip(chunk, texts, strict=True):
                article, *whole = (ids[text] for text in own_texts)
                choices = [choice[-longest:] for choice in whole]
                num_cut_articles += len(article) > room - max(map(len, choices))
                num_cut_questions += max(map(len, whole)) > longest
                # With as much of the article as fits with each choice.
                rows = [
                    encoder_records.of_two(article[: room - len(c)], c, special)
                    for c in choices
                ]
                label_ids = np.array(example.label or 0, np.int32)
                record = encoder_records.stacked(rows, special.pad)
                yield record | {"label_ids": label_ids}
        _LOGGER.info(
            "Made records of %d questions; truncated the article of %d, and "
            "the question or an option of %d.",
            len(examples),
            num_cut_articles,
            num_cut_questions,
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
        """See `task_data.TaskData`."""
        is_correct = self._is_correct(examples, outputs)
        return lambda rows: float(is_correct[rows].mean())

    def baselines(
        self, examples: _Examples, start_outputs: Outputs | None = None
    ) -> dict[str, float]:
        """Returns the accuracy of a choice by chance."""
        return {self.primary_metric: 1 / self.num_choices}

    @contextlib.contextmanager
    def open_predictions(
        self, output_dir: str, scores: Scores
    ) -> Iterator[Callable[[_Examples, Outputs], None]]:
        """Opens `predictions.jsonl`; see `task_data.TaskData`.

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
                    row: files.JsonObject = {"id": example.guid}
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
    ) -> Iterator[TextAnswer]:
        """Yields `choice`, `option`, `probabilities`; see `load_predictor`."""
        for example, logits in zip(examples, outputs["logits"], strict=True):
            # The largest logit: two probabilities may be rounded to the same.
            choice = int(np.argmax(logits))
            yield {
                "choice": choice,
                "option": example.options[choice],
                "probabilities": classification.softmax(logits).tolist(),
            }

    def predictions_of(
        self, examples: _Examples, outputs: Outputs, scores: Scores
    ) -> Predictions:
        """Returns the choices."""
        logits = np.asarray(outputs["logits"])
        return Predictions(
            np.array(examples_lib.known_labels(examples)),
            logits.argmax(axis=-1),
            classification.softmax(logits),
        )
