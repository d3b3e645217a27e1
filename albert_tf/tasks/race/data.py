"""Multiple choice, the data half: records, accuracy, predictions.

Data flow: examples -> records -> [model] -> logits -> scores, files.

The report has the accuracy by type of question: who, what, when, ..., or a
sentence to complete. RACE does not label its questions; the rule is ours and
looks at words alone.

Source: google-research/albert, `run_race.py`, whose accuracy is that of all
levels together; Lai et al. 2017 also reports middle and high separately.
"""

import dataclasses
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import files
from albert_tf.features import ArraySpec
from albert_tf.metrics import classification
from albert_tf.tasks import task
from albert_tf.tasks.race import examples as examples_lib
from albert_tf.tasks.race.examples import (
    LEVELS,
    ChoiceLengths,
    MultipleChoiceExample,
)
from albert_tf.tasks.task import Outputs, Record
from albert_tf.text.tokenizer import Tokenizer

PREDICTIONS_FILE = "predictions.jsonl"
SCORES_FILE = "predict_results.json"

_QUESTION_WORDS = ("who", "what", "when", "where", "why", "how")
QUESTION_TYPES = (*_QUESTION_WORDS, "cloze", "other")
_TYPE_OF_WORD = {
    **{word: word for word in _QUESTION_WORDS},
    "whom": "who",
    "whose": "who",
    "which": "other",
}
_WORD = re.compile(r"[^\W\d_]+")
_QUESTION_MARK = re.compile(r"[?\uff1f]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultipleChoiceData:
    """A `task.TaskData` of `MultipleChoiceExample`s.

    Its outputs are `logits` `[N, C]`; every question has `num_choices`
    options, C.
    """

    name = "race"
    primary_metric = "accuracy"

    tokenizer: Tokenizer
    lengths: ChoiceLengths
    num_choices: int = 4

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
            "tokenizer": self.tokenizer.hash,
        }

    def records(
        self, examples: Sequence[MultipleChoiceExample], *, is_training: bool
    ) -> Iterator[Record]:
        """Yields a record for each example.

        Examples without an answer get label 0.

        Raises:
            ValueError: An example to train on has no answer.
        """
        if is_training:
            examples_lib.known_labels(examples)
        yield from examples_lib.make_records(
            examples, self.tokenizer, self.lengths
        )

    def scores(
        self, examples: Sequence[MultipleChoiceExample], outputs: Outputs
    ) -> dict[str, float]:
        """Returns `accuracy`, `accuracy_middle` and `accuracy_high`.

        The last two are missing if no example has the level.
        """
        is_correct = _is_correct(examples, outputs)
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
        outputs: Outputs,
        output_dir: str,
        scores: Mapping[str, float],
    ) -> list[str]:
        """Writes one line of JSON for each question; returns the paths.

        A line has `id`, `level` if there is one, `probabilities` in the order
        of the options, `prediction` (a letter), and `answer` if it is known.
        If all answers are known, a second file has the scores; one of other
        predictions is removed.
        """
        del scores
        files.remove(os.path.join(output_dir, SCORES_FILE))
        rows = map(_prediction, examples, outputs["logits"])
        text = "".join(json.dumps(row) + "\n" for row in rows)
        paths = [os.path.join(output_dir, PREDICTIONS_FILE)]
        files.write_text(paths[0], text)
        if all(example.label is not None for example in examples):
            paths.append(os.path.join(output_dir, SCORES_FILE))
            files.write_json(paths[1], self.scores(examples, outputs))
        return paths

    def report_sections(
        self,
        examples: Sequence[MultipleChoiceExample],
        outputs: Outputs,
        scores: Mapping[str, float],
    ) -> list[dict[str, Any]]:
        """Returns a table of the accuracy by type of question."""
        del scores
        is_correct = _is_correct(examples, outputs)
        types = np.array([question_type(e.question) for e in examples])
        rows = []
        for name in QUESTION_TYPES:
            chosen = is_correct[types == name]
            if chosen.size:
                counts = str(chosen.size), str(chosen.sum())
                rows.append([name, *counts, f"{chosen.mean():.4f}"])
        return [
            {
                "title": "Accuracy by type of question",
                "header": ["type", "questions", "right", "accuracy"],
                "rows": rows,
            }
        ]


def question_type(question: str) -> str:
    """Returns one of `QUESTION_TYPES`.

    A text with a blank is a sentence to complete (`cloze`), and so is one
    without a question mark that does not begin with a question word. Of
    others, the first question word decides.

    >>> question_type("According to the text, whose dog was lost?")
    'who'
    >>> question_type("We can learn from the story that _ .")
    'cloze'
    """
    words = [word.lower() for word in _WORD.findall(question)]
    is_asked = _QUESTION_MARK.search(question) or (
        words and words[0] in _TYPE_OF_WORD
    )
    if examples_lib.BLANK.search(question) or not is_asked:
        return "cloze"
    asked = [_TYPE_OF_WORD[word] for word in words if word in _TYPE_OF_WORD]
    return asked[0] if asked else "other"


def _is_correct(
    examples: Sequence[MultipleChoiceExample], outputs: Outputs
) -> np.ndarray:
    """Returns, bool `[N]`, which examples are answered correctly."""
    labels = examples_lib.known_labels(examples)
    return np.argmax(outputs["logits"], axis=-1) == np.array(labels)


def _prediction(
    example: MultipleChoiceExample, logits: np.ndarray
) -> dict[str, Any]:
    letters = examples_lib.LETTERS
    row: dict[str, Any] = {"id": example.guid}
    if example.level:
        row["level"] = example.level
    row["probabilities"] = classification.softmax(logits).tolist()
    # The largest logit: two probabilities may be rounded to the same.
    row["prediction"] = letters[int(np.argmax(logits))]
    if example.label is not None:
        row["answer"] = letters[example.label]
    return row
