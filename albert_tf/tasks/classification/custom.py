"""Custom tables: files, labels, rows held out for validation.

Data flow: flags of a custom task -> [this file] -> `sets.read_sets`.
"""

import collections
import dataclasses
import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from albert_tf import checks
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.metrics import classification
from albert_tf.tasks import held_out, labelled_texts
from albert_tf.tasks.classification.config import ClassificationConfig
from albert_tf.tasks.classification.data import ClassificationData
from albert_tf.tasks.labelled_texts import ClassificationExample
from albert_tf.tasks.spec import DataRequest
from albert_tf.tasks.task_data import Examples

_LOGGER = logging.getLogger(__name__)
_Examples: TypeAlias = Sequence[ClassificationExample]


def read_examples(
    config: ClassificationConfig,
    request: DataRequest,
    make_data: Callable[..., ClassificationData],
) -> tuple[ClassificationData, dict[str, Examples]]:
    """Reads the examples of a custom task by use; see `sets.read_sets`."""
    uses, metadata = request.uses, request.weights.metadata
    if not config.label_column and {"train", "eval"} & {*uses}:
        raise ValueError("--label_column must be given.")
    if "train" not in uses:
        positive = request.weights.settings.get("positive_label")
        config = dataclasses.replace(
            config,
            multi_label=config.multi_label or bool(metadata.multi_label),
            positive_label=config.positive_label or positive,
        )
        _check_fits_weights(config, request.weights)
    labels = _labels(config, request)
    find_file = functools.partial(held_out.find, config, request)
    labelled, validation = held_out.read(
        config,
        request,
        lambda use: labelled_texts.read_examples(
            find_file(use), config.columns, labels=labels
        ),
        label=lambda row: (
            "" if isinstance(row.label, float) else str(row.label)
        ),
    )
    examples: dict[str, Examples] = {**labelled}
    for use, rows in labelled.items():
        labelled_texts.check_rows(use, rows, labels)
    fitted: dict[str, Any]  # computed from the training rows
    if "train" not in uses:
        fitted = {
            "target_mean": metadata.target_mean or 0.0,
            "target_scale": metadata.target_scale or 1.0,
        }
    elif labels:
        class_weights = _class_weights(config, labels, labelled["train"])
        fitted = {"class_weights": class_weights}
    else:
        targets = np.array([row.label for row in labelled["train"]], float)
        # Equal labels have no spread to scale by.
        scale = float(targets.std()) or 1.0
        fitted = {"target_mean": float(targets.mean()), "target_scale": scale}
    data = make_data(
        labels=labels,
        score_names=classification.names_for(
            labels, multi_label=config.multi_label
        ),
        has_class_scores=bool(labels),
        positive_label=_positive_label(config, labels),
        label_separator=config.columns.separator,
        text_columns=config.text_columns,
        validation=validation,
        **fitted,
    )
    if "predict" in uses:
        columns = dataclasses.replace(config.columns, label=None)
        examples["predict"] = labelled_texts.TableStream(
            find_file("predict"), columns
        )
    return data, examples


def _check_fits_weights(
    config: ClassificationConfig, weights: Checkpoint
) -> None:
    """Checks that the weights were trained with such labels and columns."""
    metadata, settings = weights.metadata, weights.settings
    if config.multi_label and metadata.task and not metadata.multi_label:
        raise ValueError(
            "The weights in use were trained with one label a row. Leave "
            "--multi_label out."
        )
    columns, trained = [*config.text_columns], settings.get("text_columns")
    if trained and (
        len(trained) != len(columns)
        or (trained != columns and {*trained} == {*columns})
    ):
        raise ValueError(
            f"The weights in use were trained with --text_columns="
            f"{','.join(trained)}. Received: {','.join(columns)}. Pass the "
            "columns of the same texts in the same order."
        )


def _labels(
    config: ClassificationConfig, request: DataRequest
) -> tuple[str, ...]:
    """Returns all labels, in the order of the logits; none for regression.

    They come from the flag; else, without training, from the metadata of the
    weights in use; else from the training file.
    """
    if config.labels or config.regression:
        return config.labels
    labels = request.weights.metadata.labels
    if labels is not None:
        return labels
    is_optional = "train" not in request.uses
    path = held_out.find(config, request, "train", is_optional=is_optional)
    if not path or not config.label_column:
        raise ValueError(
            "The labels are not known. Pass --labels; or --train_file and "
            "--label_column; or the --output_dir of the run that trained "
            "the model."
        )
    return labelled_texts.read_labels(
        path, config.label_column, separator=config.columns.separator
    )


def _positive_label(config: ClassificationConfig, labels: Sequence[str]) -> str:
    """Returns the label whose F1 is computed; empty if there is none."""
    label = config.positive_label
    if label and (len(labels) != 2 or label not in labels):
        raise ValueError(
            "--positive_label must be one of two labels. Received: "
            f"{label!r}, and the labels {checks.listed(map(repr, labels))}."
        )
    if len(labels) != 2 or config.multi_label:
        return ""
    return label or labels[1]


def _class_weights(
    config: ClassificationConfig, labels: Sequence[str], examples: _Examples
) -> tuple[float, ...]:
    """Returns the weights of the labels in the loss; empty if all are 1."""
    if config.class_weights == (labelled_texts.BALANCED,):
        counts = collections.Counter(example.label for example in examples)
        return tuple(
            # The weight of a label that does not occur has no effect.
            len(examples) / (len(labels) * counts[i]) if counts[i] else 0.0
            for i in range(len(labels))
        )
    weights = tuple(map(float, config.class_weights))
    for weight in weights:
        checks.check_number("class_weights", weight, above=0)
    if len(weights) not in (0, len(labels)):
        raise ValueError(
            f"--class_weights must be {labelled_texts.BALANCED}, or one weight "
            f"for each of the labels {checks.listed(map(repr, labels))}. "
            f"Received: {len(weights)} weights."
        )
    return weights
