"""What is known of a checkpoint besides its arrays: task, labels, lower-casing.

Whoever saves weights writes `metadata.json` beside them. Facts that it lacks
come from the files of a Hugging Face folder or of a KerasHub preset, which has
a `metadata.json` of its own: ours is `albert_metadata.json` there.

Plain Python: no TensorFlow.
"""

import contextlib
import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from albert_tf import files
from albert_tf.checkpoints import run_checkpoints
from albert_tf.metrics.scores import Score

METADATA_FILE = "metadata.json"
PRESET_METADATA_FILE = "albert_metadata.json"
# Describes the head of a KerasHub preset.
PRESET_TASK_FILE = "task.json"
# Names that transformers has for problems of a classifier.
MULTI_LABEL = "multi_label_classification"
REGRESSION = "regression"
# Tasks whose single output is the score of a choice, and the class of
# transformers for them.
MULTIPLE_CHOICE_TASKS = ("race",)
MULTIPLE_CHOICE = "AlbertForMultipleChoice"
# The names that transformers gives to labels begin with this.
UNNAMED_LABEL = "LABEL_"
NULL_THRESHOLD = "null_threshold"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metadata:
    """What is known of a checkpoint; None stands for unknown.

    Args:
        head: Name of the head.
        task: Name of the task that the model was trained for.
        do_lower_case: Whether the model takes lower-cased text.
        labels: Names of the classes, in the order of the logits; empty for
            regression.
        multi_label: Whether an example has any number of labels.
        thresholds: Of several labels, the probability from which on each is
            predicted.
        target_mean: Regression: the number that an output of 0 stands for.
        target_scale: Regression: what an increase of the output by 1 stands
            for.
        null_threshold: SQuAD 2.0: predict no answer when the null score is at
            or above this value.
        null_from_cls: SQuAD: whether the logits of `[CLS]` are those of there
            being no answer, as in models that transformers has trained.
        tokenizer_hash: `hash` of the tokenizer that the model was trained
            with.
    """

    head: str | None = None
    task: str | None = None
    do_lower_case: bool | None = None
    labels: tuple[str, ...] | None = None
    multi_label: bool | None = None
    thresholds: tuple[float, ...] | None = None
    target_mean: float | None = None
    target_scale: float | None = None
    null_threshold: float | None = None
    null_from_cls: bool | None = None
    tokenizer_hash: str | None = None

    def __post_init__(self) -> None:
        labels, thresholds = self.labels, self.thresholds
        if labels is not None and (
            not isinstance(labels, tuple)
            or not all(isinstance(label, str) for label in labels)
            or len({*labels}) < len(labels)
        ):
            raise ValueError(
                "`labels` must be a list of texts that differ from one "
                f"another. Received: {labels!r}."
            )
        for name in ("do_lower_case", "multi_label", "null_from_cls"):
            if not isinstance(value := getattr(self, name), bool | None):
                raise ValueError(
                    f"`{name}` must be true or false. Received: {value!r}."
                )
        # A Hugging Face folder has its labels in another file.
        if None not in (thresholds, labels) and (
            len(thresholds or ()) != len(labels or ())
        ):
            raise ValueError(
                "`thresholds` must have a number for each label. Received: "
                f"labels={labels}, thresholds={thresholds}."
            )

    def with_thresholds(self, scores: Mapping[str, Any]) -> "Metadata":
        """Returns it with what was chosen on the examples of an evaluation.

        `scores` are those of the evaluation, which may hold a null threshold,
        or a threshold for every label.
        """
        keys = [Score.threshold(name, 0.0).key for name in self.labels or ()]
        thresholds = None
        if keys and self.multi_label and scores.keys() >= {*keys}:
            thresholds = tuple(scores[key] for key in keys)
        return dataclasses.replace(
            self,
            null_threshold=scores.get(NULL_THRESHOLD),
            thresholds=thresholds,
        )

    def known(self) -> dict[str, Any]:
        """Returns the fields that are known, by name."""
        return {
            name: value
            for name, value in dataclasses.asdict(self).items()
            if value is not None
        }


def write(
    folder: files.Path, metadata: Metadata, *, name: str = METADATA_FILE
) -> None:
    """Writes `metadata.json` into the folder of weights, if any is known."""
    if metadata.known():
        files.write_json(os.path.join(folder, name), metadata.known())


def read(path: files.Path) -> Metadata:
    """Reads what is known of a checkpoint, given as `--init_checkpoint`."""
    facts: dict[str, Any] = {}
    results: dict[str, Any] = {}
    for folder in run_checkpoints.folders_of(path):
        # The last one that knows a fact decides.
        facts = {
            **_facts_of_keras_hub(folder),
            **_facts_of_huggingface(folder),
            **_facts_of_metadata(folder),
            **facts,
        }
        results |= _read_json(folder, run_checkpoints.RESULTS_FILE)
    # Weights that were saved before their evaluation have its thresholds.
    evaluated = Metadata(**facts).with_thresholds(results)
    return Metadata(**evaluated.known() | facts)


def _read_json(folder: str, name: str) -> dict[str, Any]:
    path = os.path.join(folder, name)
    return files.read_json_object(path, missing_ok=True)


def known(path: str, **values: Any) -> dict[str, Any]:
    """Returns the facts that a file states, checked."""
    for name in ("labels", "thresholds"):
        if isinstance(values.get(name), list):
            values[name] = tuple(values[name])
    try:
        return Metadata(**values).known()
    # Keys that are not known are a TypeError.
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _facts_of_metadata(folder: str) -> dict[str, Any]:
    name = METADATA_FILE
    values = _read_json(folder, name)
    if "keras_version" in values:
        name = PRESET_METADATA_FILE
        values = _read_json(folder, name)
    return known(os.path.join(folder, name), **values)


def _facts_of_huggingface(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, "config.json")
    config = _read_json(folder, "config.json")
    is_choice = config.get("architectures") == [MULTIPLE_CHOICE]
    return known(
        path,
        task=MULTIPLE_CHOICE_TASKS[0] if is_choice else None,
        do_lower_case=_lower_cases(folder),
        labels=_labels_of_huggingface(config, path),
        multi_label=config.get("problem_type") == MULTI_LABEL or None,
    )


def _lower_cases(folder: str) -> bool | None:
    """Returns whether a Hugging Face folder lower-cases text, if it says so."""
    path = os.path.join(folder, "tokenizer.json")
    others = ("spiece.model", "vocab.txt")
    has_other = any(os.path.isfile(os.path.join(folder, n)) for n in others)
    if has_other or not os.path.isfile(path):
        settings = _read_json(folder, "tokenizer_config.json")
        return settings.get("do_lower_case")
    from albert_tf.text import tokenizer_json

    # This file decides where it is the vocabulary, if it is one of ALBERT's.
    with contextlib.suppress(ValueError):
        return tokenizer_json.lower_cases(path)
    return None


def _labels_of_huggingface(
    config: dict[str, Any], path: str
) -> tuple[str, ...] | None:
    problem = config.get("problem_type")
    names = files.object_of(config, "id2label", path)
    if problem == REGRESSION and len(names) > 1:
        raise ValueError(
            f"{path} is of a regression with {len(names)} outputs. Only one is "
            "supported."
        )
    if problem == REGRESSION:
        return ()
    # A gap in the numbers leaves a label that is no text.
    labels: tuple[Any, ...] = tuple(
        names.get(str(i)) for i in range(len(names))
    )
    is_regression = len(labels) == 1 and problem != MULTI_LABEL
    is_unnamed = all(str(label).startswith(UNNAMED_LABEL) for label in labels)
    return None if is_regression or is_unnamed else labels


def _facts_of_keras_hub(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, PRESET_TASK_FILE)
    task = files.object_of(_read_json(folder, PRESET_TASK_FILE), "config", path)
    return known(path, multi_label=task.get("activation") == "sigmoid" or None)
