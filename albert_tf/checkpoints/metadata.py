"""What a checkpoint means besides its arrays: task, labels, lower-casing.

Whoever saves weights writes `metadata.json` beside them. Fine-tuning,
conversion and export read it. Where it is missing, the same facts are taken
from the files of a run, or from those of a Hugging Face folder.

Floor: checkpoints. Plain Python: no TensorFlow.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from albert_tf import checks, files
from albert_tf.checkpoints import run_checkpoints

METADATA_FILE = "metadata.json"
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
        tokenizer_hash: `hash` of the tokenizer that the model was trained
            with.

    Raises:
        ValueError: A value has the wrong type.
    """

    task: str | None = None
    do_lower_case: bool | None = None
    labels: tuple[str, ...] | None = None
    multi_label: bool | None = None
    thresholds: tuple[float, ...] | None = None
    target_mean: float | None = None
    target_scale: float | None = None
    null_threshold: float | None = None
    tokenizer_hash: str | None = None

    def __post_init__(self) -> None:
        labels = self.labels or ()
        has_valid_types = (
            isinstance(self.do_lower_case, bool | None)
            and isinstance(self.labels, tuple | None)
            and isinstance(self.multi_label, bool | None)
            and isinstance(self.thresholds, tuple | None)
            and isinstance(self.task, str | None)
            and isinstance(self.tokenizer_hash, str | None)
            and all(isinstance(label, str) for label in labels)
        )
        if not has_valid_types:
            raise ValueError(
                "`task`, `tokenizer_hash` and each of the `labels` must be "
                "text, `thresholds` a list; `do_lower_case` and `multi_label` "
                "must be true or false. Received: "
                f"{self.known()}."
            )
        if self.thresholds is not None and len(self.thresholds) != len(labels):
            raise ValueError(
                "`thresholds` must have a number for each of the "
                f"{len(labels)} labels. Received: {len(self.thresholds)}."
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


def write(folder: files.Path, metadata: Metadata) -> None:
    """Writes `metadata.json` into the folder of weights, if any is known."""
    if metadata.known():
        path = os.path.join(folder, METADATA_FILE)
        files.write_json(path, metadata.known())


def read(path: files.Path) -> Metadata:
    """Reads what is known of a checkpoint.

    Args:
        path: What `--init_checkpoint` takes: the folder of a run, a folder or
            prefix of a checkpoint, a Hugging Face or KerasHub folder.

    Returns:
        The facts from `metadata.json`; those that are not there from the
        files of the run or of the Hugging Face folder.

    Raises:
        ValueError: A file is damaged.
    """
    found: dict[str, Any] = {}
    for folder in run_checkpoints.folders_of(path):
        for read_facts in (_facts, _facts_of_run, _facts_of_huggingface):
            found = read_facts(folder) | found
    return Metadata(**found)


def _facts(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, METADATA_FILE)
    values = _read_json(folder, METADATA_FILE)
    if "keras_version" in values:
        # KerasHub's presets have a file of this name for other facts.
        return {}
    names = {field.name for field in dataclasses.fields(Metadata)}
    if unknown := sorted(values.keys() - names):
        raise ValueError(
            f"{path} has unknown keys: {', '.join(unknown)}. The known ones "
            f"are {', '.join(sorted(names))}. Correct or remove the file."
        )
    for name in ("labels", "thresholds"):
        if isinstance(values.get(name), list):
            values[name] = tuple(values[name])
    try:
        return Metadata(**values).known()
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _read_json(folder: str, name: str) -> dict[str, Any]:
    path = os.path.join(folder, name)
    return files.read_json_object(path, missing_ok=True)


def _facts_of_run(folder: str) -> dict[str, Any]:
    run = _read_json(folder, "run.json")
    results = _read_json(folder, "eval_results.json")
    settings = run.get("settings", {})
    labels = settings.get("labels")
    found = Metadata(
        task=run.get("task"),
        labels=None if labels is None else tuple(labels),
        multi_label=settings.get("multi_label"),
        target_mean=settings.get("target_mean"),
        target_scale=settings.get("target_scale"),
        tokenizer_hash=settings.get("tokenizer"),
    )
    # Of several seeds, the weights of the best one are kept.
    best = {
        key: results.get(f"{key}_best", value) for key, value in results.items()
    }
    return found.tuned(best).known()


def _facts_of_huggingface(folder: str) -> dict[str, Any]:
    config = _read_json(folder, "config.json")
    tokenizer = _read_json(folder, "tokenizer_config.json")
    names = config.get("id2label") or {}
    labels = tuple(str(names.get(str(i))) for i in range(len(names)))
    is_named = not all(name.startswith(UNNAMED_LABEL) for name in labels)
    return Metadata(
        do_lower_case=tokenizer.get("do_lower_case"),
        labels=labels if is_named else None,
    ).known()


def find_labels(
    path: files.Path, num_labels: int, labels: tuple[str, ...] | None = None
) -> tuple[str, ...]:
    """Returns the names of a classifier's labels, in the order of its logits.

    Args:
        path: Prefix or folder of the checkpoint.
        num_labels: Number of logits, K; 1 for regression.
        labels: Names to use instead of those that `read` finds.

    Returns:
        K names, which are `0`, `1`, ... if none are known; none for
        regression.

    Raises:
        ValueError: The number of names is not the number of labels, or a file
            is damaged.
    """
    found = read(path).labels if labels is None else labels
    wanted = num_labels if num_labels > 1 else 0
    if found is None:
        return tuple(map(str, range(wanted)))
    if len(found) != wanted:
        origin = repr(os.fspath(path)) if labels is None else "--labels"
        raise ValueError(
            f"The model has {num_labels} outputs, which means "
            f"{f'{wanted} labels' if wanted else 'regression, without labels'}"
            f", but {origin} names {len(found)}: {', '.join(found)}. Pass "
            "--labels with one name for each output, in their order."
        )
    return found
