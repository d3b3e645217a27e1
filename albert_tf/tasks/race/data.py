"""What a question asks for: who, what, when, ..., or how a sentence goes on.

Data flow: examples, predicted options -> [this file] -> report.
Floor: tasks. Plain Python, NumPy.

The rule is ours and goes by words alone; RACE does not label its questions.

Multiple choice, the data half: records, accuracy, predictions.

Data flow: examples -> records -> [model] -> logits -> scores, files.
Floor: tasks. NumPy.

Source: google-research/albert, `run_race.py`, whose accuracy is that of all
levels together; Lai et al. 2017 reports middle and high apart, too.
"""

import dataclasses
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import features, files
from albert_tf.metrics import classification
from albert_tf.tasks.race import examples as examples_lib
from albert_tf.tasks.race import features as race_features
from albert_tf.tasks.race.examples import LEVELS, MultipleChoiceExample
from albert_tf.tasks.race.features import ChoiceLengths
from albert_tf.text.tokenizer import Tokenizer

QUESTION_TYPES = (
    "who",
    "what",
    "when",
    "where",
    "why",
    "how",
    "cloze",
    "other",
)

_TYPE_OF_WORD = {
    **{name: name for name in ("who", "what", "when", "where", "why", "how")},
    "whom": "who",
    "whose": "who",
    "which": "other",
}
_WORD = re.compile(r"[^\W\d_]+")
_QUESTION_MARK = re.compile(r"[?\uff1f]")


def question_type(question: str) -> str:
    """Returns one of `QUESTION_TYPES`.

    A text with a blank, or without question mark and question word in front,
    is a sentence to be completed. Else the first question word decides.

    >>> question_type("According to the text, whose dog was lost?")
    'who'
    >>> question_type("We can learn from the story that _ .")
    'cloze'
    """
    words = [word.lower() for word in _WORD.findall(question)]
    asked = [_TYPE_OF_WORD[word] for word in words if word in _TYPE_OF_WORD]
    if examples_lib.BLANK.search(question):
        return "cloze"
    if not _QUESTION_MARK.search(question) and (
        not words or words[0] not in _TYPE_OF_WORD
    ):
        return "cloze"
    return asked[0] if asked else "other"


def accuracy_by_question_type(
    examples: Sequence[MultipleChoiceExample], logits: np.ndarray
) -> dict[str, dict[str, float]]:
    """Returns how many questions of each type are answered rightly.

    Args:
        examples: The questions, N, all with a label.
        logits: Float `[N, C]`, or anything with the same order of options.

    Returns:
        By question type, in the order of `QUESTION_TYPES` and without those
        that do not occur: `num_questions`, `num_correct` and `accuracy`.

    Raises:
        ValueError: A question has no label.
    """
    labels = np.array(examples_lib.known_labels(examples))
    is_correct = np.argmax(logits, axis=-1) == labels
    types = np.array([question_type(e.question) for e in examples])
    result = {}
    for name in QUESTION_TYPES:
        chosen = is_correct[types == name]
        if chosen.size:
            result[name] = {
                "num_questions": int(chosen.size),
                "num_correct": int(chosen.sum()),
                "accuracy": float(chosen.mean()),
            }
    return result


PREDICTIONS_FILE = "predictions.jsonl"
SCORES_FILE = "predict_results.json"


class MultipleChoiceData:
    """A `task_data.TaskData` of `MultipleChoiceExample`s.

    Its outputs hold `logits` `[N, C]`.

    Args:
        tokenizer: Makes ids of text.
        lengths: How long a choice may be.
        num_choices: C, the number of options of every question.

    Raises:
        ValueError: An example has another number of options, or lacks the
            answer where one is needed.
    """

    name = "race"
    primary_metric = "accuracy"

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        lengths: ChoiceLengths,
        num_choices: int = 4,
    ) -> None:
        self._tokenizer = tokenizer
        self._lengths = lengths
        self._num_choices = num_choices

    @property
    def vocab_size(self) -> int:
        """See `TaskData.vocab_size`."""
        return self._tokenizer.vocab_size

    @property
    def array_specs(self) -> tuple[features.ArraySpec, ...]:
        """See `TaskData.array_specs`."""
        return race_features.array_specs(
            self._num_choices, pad_id=self._tokenizer.special_ids.pad
        )

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `TaskData.settings`."""
        return {
            "task": self.name,
            **dataclasses.asdict(self._lengths),
            "num_choices": self._num_choices,
            "tokenizer": self._tokenizer.hash,
        }

    def records(
        self, examples: Sequence[MultipleChoiceExample], *, is_training: bool
    ) -> Iterator[dict[str, np.ndarray]]:
        """See `TaskData.records`; one for each example."""
        if is_training:
            examples_lib.known_labels(examples)
        for example in examples:
            if len(example.options) != self._num_choices:
                raise ValueError(
                    f"Question {example.guid} has {len(example.options)} "
                    f"options; wanted {self._num_choices}, as the others have. "
                    "Every question of a run needs the same number."
                )
        yield from race_features.make_records(
            examples, self._tokenizer, self._lengths
        )

    def scores(
        self,
        examples: Sequence[MultipleChoiceExample],
        outputs: Mapping[str, Any],
    ) -> dict[str, float]:
        """Returns `accuracy`, `accuracy_middle` and `accuracy_high`.

        The last two are there where the examples have such a level.
        """
        labels = np.array(examples_lib.known_labels(examples))
        is_correct = np.argmax(outputs["logits"], axis=-1) == labels
        levels = np.array([example.level for example in examples])
        result = {"accuracy": float(np.mean(is_correct))}
        for level in LEVELS:
            if np.any(levels == level):
                accuracy = float(np.mean(is_correct[levels == level]))
                result[f"accuracy_{level}"] = accuracy
        return result

    def write_predictions(
        self,
        examples: Sequence[MultipleChoiceExample],
        outputs: Mapping[str, Any],
        output_dir: str,
    ) -> list[str]:
        """Writes one line of JSON for each question.

        A line has `id`, `level` where there is one, `probabilities` in the
        order of the options, `prediction` (a letter), and `answer` where it is
        known. Where all answers are, their scores go into a second file.
        """
        rows = map(_prediction, examples, outputs["logits"])
        text = "".join(json.dumps(row) + "\n" for row in rows)
        paths = [os.path.join(output_dir, PREDICTIONS_FILE)]
        files.write_text(paths[0], text)
        if all(example.label is not None for example in examples):
            paths.append(os.path.join(output_dir, SCORES_FILE))
            scores = self.scores(examples, outputs)
            files.write_text(paths[1], json.dumps(scores, indent=2) + "\n")
        return paths

    def report_sections(
        self,
        examples: Sequence[MultipleChoiceExample],
        outputs: Mapping[str, Any],
    ) -> list[dict[str, Any]]:
        """Returns a table of the accuracy by type of question."""
        found = accuracy_by_question_type(examples, outputs["logits"])
        return [
            {
                "title": "Accuracy by type of question",
                "header": ["type", "questions", "right", "accuracy"],
                "rows": [
                    [
                        name,
                        str(row["num_questions"]),
                        str(row["num_correct"]),
                        f"{row['accuracy']:.4f}",
                    ]
                    for name, row in found.items()
                ],
            }
        ]


def _prediction(
    example: MultipleChoiceExample, logits: np.ndarray
) -> dict[str, Any]:
    letters = examples_lib.LETTERS
    row: dict[str, Any] = {"id": example.guid}
    if example.level:
        row["level"] = example.level
    row["probabilities"] = classification.softmax(logits).tolist()
    # Of the logits: of probabilities two may round to the same.
    row["prediction"] = letters[int(np.argmax(logits))]
    if example.label is not None:
        row["answer"] = letters[example.label]
    return row
