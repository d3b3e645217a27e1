"""Facts that the arrays do not show: head, labels, thresholds.

They are saved as `metadata.json` in the folder of the weights. An evaluation of
a run's weights adds thresholds and scores.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from albert_tf import checks, files
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.text.vocabulary_file import TokenizerSettings

METADATA_FILE = "metadata.json"
TOKENIZER_SETTINGS = tuple(TokenizerSettings.__dataclass_fields__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metadata:
    """Facts about a checkpoint; None stands for unknown.

    Args:
        task: Name of the task that the model was trained for.
        head: Name of its head, of `heads.HEADS`.
        do_lower_case: Whether the model takes lower-cased text.
        labels: Names of the classes by logit; empty for regression.
        output_names: Names of the numbers of a regression with several.
        multi_label: Whether an example has any number of labels.
        thresholds: Multi-label: predict a label at or above this probability.
            Else, predict the class whose probability exceeds its threshold by
            most; of more than two, none if all are below.
        temperature: Divisor of the logits of labels, for probabilities.
        target_mean: Regression: the number that an output of 0 stands for.
        target_scale: Regression: the difference that 1 in the output stands
            for.
        null_threshold: SQuAD 2.0: predict no answer at or above this null
            score.
        null_from_cls: SQuAD: whether the logits of `[CLS]` mean that there is
            no answer, as in models that transformers has trained.
        tokenizer_hash: `fingerprint` of the tokenizer of the training.
        settings: `TaskData.settings` of the fine-tuning, or of an export.
        evaluation: The last evaluation of these weights, see
            `training.record_sets.RecordSet.describe`.
        keep_accents, tokenize_chinese_chars, added_tokens: Fields of
            `TokenizerSettings`, if they are not the default.
    """

    task: str | None = None
    head: str | None = None
    do_lower_case: bool | None = None
    labels: tuple[str, ...] | None = None
    multi_label: bool | None = None
    thresholds: tuple[float, ...] | None = None
    temperature: float | None = None
    target_mean: float | None = None
    target_scale: float | None = None
    null_threshold: float | None = None
    null_from_cls: bool | None = None
    tokenizer_hash: str | None = None
    settings: Mapping[str, Any] | None = None
    evaluation: Mapping[str, Any] | None = None
    keep_accents: bool | None = None
    tokenize_chinese_chars: bool | None = None
    added_tokens: Mapping[str, bool | str] | None = None
    output_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name, kind in type(self).__annotations__.items():
            value = getattr(self, name)
            if kind == bool | None and not isinstance(value, kind):
                raise ValueError(f"`{name}` must be true or false: {value!r}.")
        labels, thresholds = self.labels, self.thresholds
        if labels is None:
            return
        is_list = isinstance(labels, tuple) and len({*labels}) == len(labels)
        if not is_list or not all(isinstance(label, str) for label in labels):
            raise ValueError(
                "`labels` must be a list of texts that differ from one "
                f"another. Received: {labels!r}."
            )
        if thresholds is not None and len(thresholds) != len(labels):
            raise ValueError(
                "`thresholds` must have a number for each label. Received: "
                f"labels={labels}, thresholds={thresholds}."
            )

    def measured(
        self,
        scores: Mapping[str, Any],
        evaluation: Mapping[str, Any] | None = None,
    ) -> "Metadata":
        """Returns metadata with an evaluation and the thresholds it chose.

        Earlier measurements are dropped: without scores, the result holds for
        any weights of the model.
        """
        keys = [Score.threshold(name, 0.0).key for name in self.labels or ()]
        thresholds = None
        if keys and scores.keys() >= {*keys}:
            thresholds = tuple(scores[key] for key in keys)
        return dataclasses.replace(
            self,
            null_threshold=scores.get("null_threshold"),
            thresholds=thresholds,
            temperature=scores.get("temperature"),
            evaluation=evaluation,
        )

    def evaluated(self, evaluation: Mapping[str, Any]) -> "Metadata":
        """Returns metadata with an evaluation; other facts are kept."""
        return self.measured(evaluation["scores"], evaluation).combined(self)

    @property
    def chosen(self) -> Scores:
        """The chosen thresholds and temperature, as scores of an evaluation."""
        labels, thresholds = self.labels or (), self.thresholds or ()
        if self.null_threshold is not None:
            labels, thresholds = ("",), (self.null_threshold,)
        entries = [*map(Score.threshold, labels, thresholds)]
        if self.temperature is not None:
            entries.append(Score("temperature", self.temperature, Role.FITTED))
        return Scores(entries=tuple(entries))

    @property
    def assumed(self) -> str:
        """Names the thresholds that are assumed because none is known."""
        if self.multi_label and self.thresholds is None:
            return "a threshold of 0.5 for every label"
        if self.head == "beam_span" and self.null_threshold is None:
            return "a null threshold of 0"
        return ""

    def find_labels(
        self, num_outputs: int, new: tuple[str, ...] | None = None
    ) -> tuple[str, ...]:
        """Returns the names of a classifier's labels, in the order of logits.

        They are the `new` names, or else the known names, or else `0`, `1`, ...
        A regression, such as a model with one output, has no labels.
        """
        is_regression = num_outputs == 1 or self.labels == ()
        is_regression = is_regression and not self.multi_label
        num_labels = 0 if is_regression else num_outputs
        labels = self.labels if new is None else new
        if labels is None:
            return tuple(map(str, range(num_labels)))
        if len(labels) != num_labels:
            raise ValueError(
                f"{'The checkpoint' if new is None else '--labels'} names "
                f"{len(labels)} labels ({checks.listed(labels)}), but the "
                f"model has {num_outputs} outputs, which means {num_labels} "
                "labels. Pass a name for each, in their order: --labels, in "
                "Python labels."
            )
        Metadata(labels=tuple(labels))  # raises if two are equal
        # Another number of names does not say which output each is of.
        old = self.labels or ()
        pairs = [*zip(labels, old, strict=False)] * (len(old) == num_labels)
        if any(a != b and a in old for a, b in pairs):
            raise ValueError(
                f"labels={','.join(labels)} gives names of the model's labels "
                f"to other outputs: in its order they are {','.join(old)}. "
                "Leave them out."
            )
        return labels

    @property
    def tokenizer_settings(self) -> files.JsonObject:
        """The known fields of `TokenizerSettings`, by name."""
        known = self.known()
        return {n: known[n] for n in TOKENIZER_SETTINGS if n in known}

    def known(self) -> files.JsonObject:
        """Returns the fields that are known, by name."""
        fields = dataclasses.asdict(self)
        return {n: value for n, value in fields.items() if value is not None}

    def combined(self, other: "Metadata") -> "Metadata":
        """Returns the facts of both; these facts take precedence."""
        return Metadata(**other.known() | self.known())

    def write(self, folder: files.Path, *, name: str = METADATA_FILE) -> None:
        """Writes `metadata.json` into a folder, if any fact is known."""
        if known := self.known():
            files.write_json(os.path.join(folder, name), known)

    @classmethod
    def read(
        cls, folder: files.Path, *, name: str = METADATA_FILE
    ) -> "Metadata":
        """Reads the `metadata.json` in a folder, if it is there."""
        path = os.path.join(folder, name)
        facts = files.read_json_object(path, missing_ok=True)
        return cls.from_json(path, facts)

    @classmethod
    def from_json(cls, path: str, facts: Mapping[str, Any]) -> "Metadata":
        """Returns the facts in a file, checked; errors name the file."""
        fields: files.JsonObject = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in facts.items()
        }
        try:
            return cls(**fields)
        # Keys that are not known are a TypeError.
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {error}") from error
