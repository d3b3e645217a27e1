"""The head of classification and regression."""

import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.checkpoints import compatibility, heads
from albert_tf.checkpoints.checkpoint import Checkpoint, Note
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.settings import setting
from albert_tf.tasks import inputs
from albert_tf.tasks.classification import glue
from albert_tf.tasks.classification.examples import ClassificationExample
from albert_tf.tasks.head_flags import EarlyExitSettings
from albert_tf.tasks.spec import Exported, HeadSpec, Signatures
from albert_tf.tasks.task import AnswerData, Batch, ExampleSet, Totals

# Answers are lists of labels; nothing is written with it.
_SEPARATOR = "|"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierSettings(EarlyExitSettings):
    """The settings of an exported classifier.

    `thresholds` are empty for those beside the checkpoint, or 1/2.
    """

    labels: tuple[str, ...] = setting(
        (),
        "classifier: names of the labels, in the order of the outputs. "
        "Default: those beside the checkpoint, or 0,1,...",
    )
    thresholds: tuple[float, ...] = ()

    def applied_to(self, known: Metadata) -> Metadata:
        """Replaces labels and thresholds."""
        return dataclasses.replace(
            known,
            labels=self.labels or known.labels,
            thresholds=self.thresholds or known.thresholds,
        )

    def notes(self, known: Metadata) -> list[Note]:
        """Returns notes on replaced labels and unknown thresholds."""
        notes = super().notes(known)
        if self.labels and known.labels not in (None, self.labels):
            text = f"labels={json.dumps(known.labels)}"
            notes.append(Note("left out", f"{text} (--labels replaces them)"))
        return notes


class ClassifierSpec(HeadSpec):
    """What is done with the head `classifier`."""

    head = heads.CLASSIFIER
    mean_over = "classes"

    def example(self, position: int, item: Any) -> ClassificationExample:
        """Takes one text, or two."""
        text_a, text_b = inputs.one_or_two_texts(position, item)
        return ClassificationExample(
            guid=str(position), text_a=text_a, text_b=text_b
        )

    def answer_data(
        self, source: Checkpoint, model: Any, settings: Mapping[str, Any]
    ) -> AnswerData:
        """Takes labels, unless given, and thresholds from the metadata."""
        from albert_tf.tasks.classification.data import ClassificationData

        facts, given = source.metadata, settings.get("given_labels")
        if given == () and model.num_labels == 1:
            facts = dataclasses.replace(facts, labels=(), multi_label=None)
        return ClassificationData(
            name=facts.task or "texts",
            labels=compatibility.find_labels(
                facts, model.num_labels, where=repr(source.path), given=given
            ),
            score_names=(),
            tokenizer=source.tokenizer,
            max_seq_length=settings["max_seq_length"],
            prediction_range=glue.prediction_range(facts.task),
            label_separator=_SEPARATOR if facts.multi_label else "",
            thresholds=facts.thresholds,
            target_mean=facts.target_mean or 0.0,
            target_scale=facts.target_scale or 1.0,
            output_names=facts.output_names or (),
            text_columns=tuple(settings.get("text_columns", ())),
        )

    def example_set(self, data: Any, examples: Sequence[Any]) -> ExampleSet:
        """Checks that a model of one text gets no pair."""
        if len(data.text_columns) == 1 and any(e.text_b for e in examples):
            raise ValueError(
                "The model was trained on one text, and two are a pair. For "
                "several answers, pass a list, or lines of standard input."
            )
        return super().example_set(data, examples)

    def mean_data(self, members: Sequence[Any]) -> Any:
        """Takes the means of the thresholds, if all are known."""
        known, thresholds = [one.thresholds for one in members], None
        if None not in known:
            thresholds = tuple(map(statistics.mean, zip(*known, strict=True)))
        return dataclasses.replace(members[0], thresholds=thresholds)

    def mean_outputs(
        self, members: Sequence[Any], outputs: Sequence[Totals], inputs: Batch
    ) -> Totals:
        """Also takes the mean of several labels, or of numbers."""
        from albert_tf.tasks import ensemble

        # The place to divide the logits of a member by its temperature.
        logits = [one["logits"] for one in outputs]
        if members[0].is_regression:
            mean, scale = members[0].target_mean, members[0].target_scale
            numbers = [
                one * (data.target_scale / scale)
                + (data.target_mean - mean) / scale
                for data, one in zip(members, logits, strict=True)
            ]
            return {"logits": sum(numbers) / len(numbers)}
        if members[0].is_multi_label:
            return {"logits": ensemble.sigmoid_logits(logits)}
        return {"logits": ensemble.softmax_logits(logits)}

    serving_settings = ClassifierSettings

    def make_signatures(self, exported: Exported) -> Signatures:
        """Traces those of labels, or of a number."""
        from albert_tf.tasks.classification import signatures

        return signatures.make_signatures(exported)
