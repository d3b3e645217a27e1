"""The head of classification and regression."""

import dataclasses
import json
import logging
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.checkpoints import heads
from albert_tf.checkpoints.checkpoint import Checkpoint, Note
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.settings import SettingValues, setting
from albert_tf.tasks import inputs
from albert_tf.tasks.classification import glue
from albert_tf.tasks.head_flags import EarlyExitSettings
from albert_tf.tasks.labelled_texts import ClassificationExample
from albert_tf.tasks.spec import HeadSpec
from albert_tf.tasks.task_data import AnswerData, Examples, ExampleSet, Outputs

_LOGGER = logging.getLogger(__name__)

# Not empty, so that answers are lists of labels; it is never written.
_SEPARATOR = "|"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierSettings(EarlyExitSettings):
    """The settings of an exported classifier.

    If `thresholds` or `temperature` are empty, the checkpoint's are used.
    """

    labels: tuple[str, ...] = setting(
        (),
        "classifier: names of the labels, in the order of the outputs. "
        "Default: the checkpoint's, or 0,1,...",
    )
    thresholds: tuple[float, ...] | None = None
    temperature: float | None = None

    def applied_to(self, metadata: Metadata) -> Metadata:
        """Replaces labels, thresholds and temperature."""
        return dataclasses.replace(
            metadata,
            labels=self.labels or metadata.labels,
            thresholds=self.thresholds or metadata.thresholds,
            temperature=self.temperature or metadata.temperature,
        )

    def notes(self, metadata: Metadata) -> list[Note]:
        """Returns notes on replaced labels and unknown thresholds."""
        notes = super().notes(metadata)
        if self.labels and metadata.labels not in (None, self.labels):
            text = f"labels={json.dumps(metadata.labels)}"
            notes.append(Note("left out", f"{text} (--labels replaces them)"))
        return notes


class ClassifierSpec(HeadSpec):
    """Predicts labels or numbers with the head `classifier`."""

    head = heads.CLASSIFIER
    has_mean = True

    def example(self, position: int, item: object) -> ClassificationExample:
        """Makes an example of one text, or two."""
        text_a, text_b = inputs.one_or_two_texts(position, item)
        return ClassificationExample(
            guid=str(position), text_a=text_a, text_b=text_b
        )

    def answer_data(
        self, checkpoint: Checkpoint, model: Any, settings: SettingValues
    ) -> AnswerData:
        """Takes the decision, and labels unless given, from the metadata."""
        from albert_tf.tasks.classification.data import ClassificationData
        from albert_tf.tasks.classification.decision import Decision

        metadata, labels = checkpoint.metadata, settings.get("given_labels")
        if labels is None and checkpoint.may_be_choices:
            text = "%s does not say what its one output is: it is answered as "
            text += "a number, of which transformers makes a probability"
            _LOGGER.warning(text, checkpoint.path)
        if labels == () and model.num_labels == 1:
            metadata = dataclasses.replace(
                metadata, labels=(), multi_label=None
            )
        return ClassificationData(
            name=metadata.task or "texts",
            labels=metadata.find_labels(model.num_labels, labels),
            score_names=(),
            tokenizer=checkpoint.tokenizer,
            max_seq_length=settings["max_seq_length"],
            prediction_range=glue.prediction_range(metadata.task),
            label_separator=_SEPARATOR if metadata.multi_label else "",
            decision=Decision(metadata.temperature, metadata.thresholds),
            target_mean=metadata.target_mean or 0.0,
            target_scale=metadata.target_scale or 1.0,
            output_names=metadata.output_names or (),
            text_columns=tuple(settings.get("text_columns", ())),
        )

    def example_set(self, data: Any, examples: Examples) -> ExampleSet:
        """Checks that a model of one text gets no pair."""
        if len(data.text_columns) == 1 and any(e.text_b for e in examples):
            raise ValueError(
                "The model was trained on one text, and two are a pair. For "
                "several answers, pass a list, or lines of standard input."
            )
        return super().example_set(data, examples)

    def mean_data(self, members: Sequence[Any]) -> Any:
        """Averages the thresholds; all models must have them, or none."""
        from albert_tf.tasks.classification.decision import Decision

        of_each, thresholds = [m.decision.thresholds for m in members], None
        if any(of_each):
            if None in of_each:
                raise ValueError("Only some of the models have thresholds.")
            thresholds = tuple(map(statistics.mean, zip(*of_each, strict=True)))
            text = "Averaging the thresholds of the models: %s. No evaluation "
            text += "has chosen these means."
            _LOGGER.warning(text, thresholds)
        decision = Decision(thresholds=thresholds)
        return dataclasses.replace(members[0], decision=decision)

    def mean_outputs(
        self, members: Sequence[Any], outputs: Sequence[Outputs]
    ) -> Outputs:
        """Averages probabilities, or the numbers of a regression."""
        from scipy import special

        first = members[0]
        logits = [np.array(rows["logits"], np.float64) for rows in outputs]
        pairs = [*zip(logits, members, strict=True)]
        if first.is_regression:
            numbers = [x * m.target_scale + m.target_mean for x, m in pairs]
            mean = np.mean(numbers, axis=0) - first.target_mean
            return {"logits": mean / first.target_scale}
        scaled = [x / (m.decision.temperature or 1.0) for x, m in pairs]
        if first.is_multi_label:
            probabilities = np.mean(special.expit(scaled), axis=0)
            return {"logits": special.logit(probabilities)}
        return super().mean_outputs(members, [{"logits": x} for x in scaled])

    serving_settings = ClassifierSettings
