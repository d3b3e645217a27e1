"""What a checkpoint means besides its arrays: task, labels, lower-casing.

Whoever saves weights writes `metadata.json` beside them. Fine-tuning,
conversion and export read it. Where it is missing, the same facts are taken
from the files of a run, or from those of a Hugging Face folder. In a KerasHub
preset, which has a `metadata.json` of its own, it is `albert_metadata.json`.

Plain Python: no TensorFlow.
"""

import contextlib
import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from albert_tf import checks, files
from albert_tf.checkpoints import run_checkpoints
from albert_tf.text import tokenizer_json

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
# Keys of the thresholds of labels, among the scores of an evaluation, begin
# with this.
THRESHOLD_OF = "threshold_of_"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metadata:
    """What is known of a checkpoint; None stands for unknown.

    Args:
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

    Raises:
        ValueError: A value has the wrong type, or two labels are the same.
    """

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
        labels = self.labels or ()
        has_valid_types = (
            isinstance(self.do_lower_case, bool | None)
            and isinstance(self.multi_label, bool | None)
            and isinstance(self.null_from_cls, bool | None)
            and isinstance(self.labels, tuple | None)
            and isinstance(self.thresholds, tuple | None)
            and isinstance(self.task, str | None)
            and isinstance(self.tokenizer_hash, str | None)
            and all(isinstance(label, str) for label in labels)
        )
        if not has_valid_types:
            raise ValueError(
                "`task`, `tokenizer_hash` and each of the `labels` must be "
                "text, `thresholds` a list; `do_lower_case`, `multi_label` and "
                "`null_from_cls` must be true or false. Received: "
                f"{self.known()}."
            )
        if len({*labels}) < len(labels):
            raise ValueError(
                "`labels` must differ from one another. Received: "
                f"labels={','.join(labels)}."
            )
        # A Hugging Face folder has its labels in another file.
        if None not in (self.thresholds, self.labels) and (
            len(self.thresholds or ()) != len(labels)
        ):
            raise ValueError(
                "`thresholds` must have a number for each of the "
                f"{len(labels)} labels. Received: "
                f"{len(self.thresholds or ())}."
            )
        numbers = {
            "null_threshold": self.null_threshold,
            "target_mean": self.target_mean,
            "target_scale": self.target_scale,
            **{
                f"thresholds[{i}]": t
                for i, t in enumerate(self.thresholds or ())
            },
        }
        for name, number in numbers.items():
            if number is not None:
                checks.check_number(name, number)

    def tuned(self, scores: Mapping[str, Any]) -> "Metadata":
        """Returns it with what was chosen on the examples of an evaluation.

        `scores` are those of the evaluation, which may hold a null threshold,
        or a threshold for every label.
        """
        keys = [f"{THRESHOLD_OF}{label}" for label in self.labels or ()]
        thresholds = None
        if self.multi_label and scores.keys() >= {*keys}:
            thresholds = tuple(scores[key] for key in keys)
        return dataclasses.replace(
            self,
            null_threshold=scores.get("null_threshold"),
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
    """Reads what is known of a checkpoint.

    Args:
        path: What `--init_checkpoint` takes: the folder of a run, a folder or
            prefix of a checkpoint, a Hugging Face or KerasHub folder.

    Returns:
        The facts from `metadata.json`; those that are not there from the
        files of the run, of the Hugging Face folder or of the preset.

    Raises:
        ValueError: A file is damaged.
    """
    found: dict[str, Any] = {}
    for folder in run_checkpoints.folders_of(path):
        for read_facts in _READERS:
            found = read_facts(folder) | found
    return Metadata(**found)


def _facts(folder: str) -> dict[str, Any]:
    values = _read_json(folder, METADATA_FILE)
    if "keras_version" in values:
        return _checked(folder, PRESET_METADATA_FILE)
    return _checked(folder, METADATA_FILE)


def _checked(folder: str, name: str) -> dict[str, Any]:
    path = os.path.join(folder, name)
    values = _read_json(folder, name)
    names = {field.name for field in dataclasses.fields(Metadata)}
    if unknown := sorted(values.keys() - names):
        raise ValueError(
            f"{path} has unknown keys: {', '.join(unknown)}. The known ones "
            f"are {', '.join(sorted(names))}. Correct or remove the file."
        )
    return _known(path, **values)


def _read_json(folder: str, name: str) -> dict[str, Any]:
    path = os.path.join(folder, name)
    return files.read_json_object(path, missing_ok=True)


def _known(path: str, **values: Any) -> dict[str, Any]:
    """Returns the facts that a file states, checked."""
    for name in ("labels", "thresholds"):
        if isinstance(values.get(name), list):
            values[name] = tuple(values[name])
    try:
        return Metadata(**values).known()
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _facts_of_run(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, "run.json")
    run = _read_json(folder, "run.json")
    results = _read_json(folder, "eval_results.json")
    settings = files.object_of(run, "settings", path)
    found = _known(
        path,
        task=run.get("task"),
        labels=settings.get("labels"),
        multi_label=settings.get("multi_label"),
        target_mean=settings.get("target_mean"),
        target_scale=settings.get("target_scale"),
        tokenizer_hash=settings.get("tokenizer"),
    )
    return Metadata(**found).tuned(of_best_seed(results)).known()


def of_best_seed(results: Mapping[str, Any]) -> dict[str, Any]:
    """Returns results with those of the best of several seeds for medians.

    Those of one seed are returned as they are: `_best` may end a label.
    """
    if "num_seeds" not in results:
        return dict(results)
    return {
        key: results.get(f"{key}_best", value) for key, value in results.items()
    }


def _facts_of_huggingface(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, "config.json")
    config = _read_json(folder, "config.json")
    is_choice = config.get("architectures") == [MULTIPLE_CHOICE]
    return _known(
        path,
        task=MULTIPLE_CHOICE_TASKS[0] if is_choice else None,
        do_lower_case=_lower_cases(folder),
        labels=_labels_of_huggingface(config, path),
        multi_label=config.get("problem_type") == MULTI_LABEL or None,
    )


def _facts_of_keras_hub(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, PRESET_TASK_FILE)
    task = files.object_of(_read_json(folder, PRESET_TASK_FILE), "config", path)
    return _known(path, multi_label=task.get("activation") == "sigmoid" or None)


# The first that knows a fact decides.
_READERS = (
    _facts,
    _facts_of_run,
    _facts_of_huggingface,
    _facts_of_keras_hub,
)


def _lower_cases(folder: str) -> bool | None:
    """Returns whether a Hugging Face folder lower-cases text, if it says so."""
    path = os.path.join(folder, "tokenizer.json")
    others = ("spiece.model", "vocab.txt")
    has_other = any(os.path.isfile(os.path.join(folder, n)) for n in others)
    if has_other or not os.path.isfile(path):
        settings = _read_json(folder, "tokenizer_config.json")
        return settings.get("do_lower_case")
    # This file decides where it is the vocabulary, if it is one of ALBERT's.
    with contextlib.suppress(ValueError):
        return tokenizer_json.lower_cases(path)
    return None


def _labels_of_huggingface(
    config: dict[str, Any], path: str
) -> tuple[str, ...] | None:
    if config.get("problem_type") == REGRESSION:
        return ()
    names = files.object_of(config, "id2label", path)
    labels: list[Any] = [names.get(str(i)) for i in range(len(names))]
    if None in labels:
        raise ValueError(
            f"{path}: the keys of `id2label` must be the numbers from 0 to "
            f"{len(labels) - 1}. Received: {', '.join(names)}. Correct the "
            "file."
        )
    is_number = len(labels) == 1 and config.get("problem_type") != MULTI_LABEL
    if is_number or all(
        isinstance(label, str) and label.startswith(UNNAMED_LABEL)
        for label in labels
    ):
        return None
    return tuple(labels)


def find_labels(
    known: Metadata,
    num_outputs: int,
    *,
    where: str,
    given: tuple[str, ...] | None = None,
) -> tuple[str, ...]:
    """Returns the names of a classifier's labels, in the order of its logits.

    Args:
        known: What is known of the checkpoint.
        num_outputs: Number of logits, K; 1 for regression.
        where: Path of the checkpoint, for messages.
        given: Names to use instead of the known ones.

    Returns:
        K names, which are `0`, `1`, ... if none are known; none for
        regression.

    Raises:
        ValueError: The number of names is not that of the outputs, or a given
            name is the known one of another output.
    """
    is_regression = num_outputs == 1 and not known.multi_label
    found = known.labels if given is None else given
    wanted = 0 if is_regression else num_outputs
    if found is None:
        return tuple(map(str, range(wanted)))
    if len(found) != wanted:
        raise ValueError(
            f"The model has {num_outputs} outputs, which means "
            f"{f'{wanted} labels' if wanted else 'regression, without labels'}"
            f", but {repr(where) if given is None else '--labels'} names "
            f"{len(found)}: {', '.join(found)}. Pass --labels with one name "
            "for each output, in their order."
        )
    pairs = zip(found, known.labels or found, strict=False)
    if any(name != own and name in (known.labels or ()) for name, own in pairs):
        raise ValueError(
            f"--labels={','.join(found)} gives names of the model's labels to "
            f"other outputs: in its order they are "
            f"{','.join(known.labels or ())}. Leave --labels out, or pass new "
            "names."
        )
    return found
