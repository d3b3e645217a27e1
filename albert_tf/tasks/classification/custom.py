"""Tables of one's own: their files, their labels, what the labels need.

Data flow: flags of a custom task -> [this file] -> `sets.read_sets`.
"""

import collections
import contextlib
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.checkpoints.metadata import Metadata
from albert_tf.tasks import table_files
from albert_tf.tasks.classification import examples as examples_lib
from albert_tf.tasks.classification import scores, validation_split
from albert_tf.tasks.classification.data import ClassificationData
from albert_tf.tasks.classification.examples import (
    ClassificationExample,
    Columns,
)
from albert_tf.tasks.classification.sets import BALANCED, ClassificationConfig
from albert_tf.tasks.classification.table_stream import TableStream
from albert_tf.tasks.task import SPLITS, ExampleSet, Sets
from albert_tf.text.tokenizer import Tokenizer

_logger = logging.getLogger(__name__)


def read_sets(
    config: ClassificationConfig,
    uses: Sequence[str],
    *,
    tokenizer: Tokenizer,
    max_seq_length: int,
    kept_labels: Sequence[str] | None,
    kept: Metadata,
    kept_settings: Mapping[str, Any],
) -> Sets:
    """Reads the examples of a custom task; see `sets.read_sets`."""
    if not config.label_column and {"train", "eval"} & {*uses}:
        raise ValueError("--label_column must be given.")
    if "train" not in uses:
        config = _as_trained(config, kept)
        _check_texts(config, kept_settings)
        if "eval" in uses:
            _check_held_out(config, kept_settings)
    labels = _find_labels(config, uses, kept, kept_labels)
    _check_separator(config, labels)
    examples = _read_examples(config, uses, labels)
    data = ClassificationData(
        name=config.name,
        labels=labels,
        score_names=scores.names_for(labels, multi_label=config.multi_label),
        tokenizer=tokenizer,
        max_seq_length=max_seq_length,
        has_class_scores=bool(labels),
        label_separator=config.separator or "",
        text_columns=config.text_columns,
        validation=_validation(config),
    )
    data = _complete(data, config, examples.get("train"), kept)
    sets = {
        use: ExampleSet(examples=own, data=data)
        for use, own in examples.items()
    }
    if "predict" in uses:
        stream = TableStream(
            _file_of(config, "predict"),
            Columns(texts=config.text_columns, guid=config.id_column),
        )
        sets["predict"] = ExampleSet(examples=stream, data=data)
    return Sets(
        train=sets.get("train"),
        evaluation=(sets["eval"],) if "eval" in sets else (),
        prediction=(sets["predict"],) if "predict" in sets else (),
    )


def _as_trained(
    config: ClassificationConfig, kept: Metadata
) -> ClassificationConfig:
    """Returns the flags with those that the weights in use decide."""
    if kept.multi_label:
        return dataclasses.replace(config, multi_label=True)
    if config.multi_label and kept.task:
        raise ValueError(
            "The weights in use were trained with one label a row. Leave "
            "--multi_label out."
        )
    return config


def _check_texts(config: ClassificationConfig, kept: Mapping[str, Any]) -> None:
    """Checks that texts are given as the weights in use have learnt them."""
    columns, known = [*config.text_columns], kept.get("text_columns")
    if known and (
        len(known) != len(columns)
        or (known != columns and {*known} == {*columns})
    ):
        raise ValueError(
            f"The weights in use were trained with --text_columns="
            f"{','.join(known)}. Received: {','.join(columns)}. Pass the "
            "columns of the same texts in the same order; their names may "
            "differ."
        )


def _validation(config: ClassificationConfig) -> tuple[float, int] | None:
    if config.validation_share is None:
        return None
    return config.validation_share, config.validation_seed


def _check_held_out(
    config: ClassificationConfig, kept: Mapping[str, Any]
) -> None:
    """Checks that the weights in use were not trained on the rows to evaluate.

    Weights of another task, or of no run, were trained on other rows.
    """
    wanted, known = _validation(config), kept.get("validation")
    if not wanted or kept.get("task") != config.name or known == [*wanted]:
        return
    flags = "on all rows, without --validation_share"
    if known:
        flags = "with --validation_share={} --validation_seed={}".format(*known)
    raise ValueError(
        f"The weights in use were trained {flags}, so they have seen rows that "
        f"--validation_share={wanted[0]} --validation_seed={wanted[1]} would "
        "evaluate. Pass the values of the training, or an --eval_file."
    )


def _check_separator(
    config: ClassificationConfig, labels: Sequence[str]
) -> None:
    separator = config.separator
    mixed = [label for label in labels if separator and separator in label]
    if mixed:
        raise ValueError(
            f"The label {mixed[0]!r} contains the --label_separator, "
            f"{separator!r}, so predictions could not be read. Pass another "
            "--label_separator."
        )


def _file_of(config: ClassificationConfig, use: str) -> str:
    """Returns the file of a use: the one that is named, or in the folder.

    Raises:
        FileNotFoundError: The folder has none.
        ValueError: Neither is given, or the folder has several.
    """
    named: str | None = getattr(config, f"{use}_file")
    if not config.data_dir and not named:
        raise ValueError(f"--data_dir or --{use}_file must be given.")
    return named or examples_lib.find_split(config.data_dir or "", SPLITS[use])


def _find_labels(
    config: ClassificationConfig,
    uses: Sequence[str],
    kept: Metadata,
    of_run: Sequence[str] | None,
) -> tuple[str, ...]:
    """Returns all labels, in the order of the logits; none for regression.

    They are those of the flag; else, if the run does not train, those of the
    weights in use; else those of the training file.

    Args:
        config: The flags.
        uses: What the run does.
        kept: What is known of the weights in use.
        of_run: The labels of the run in the output directory; None if there
            is none.

    Raises:
        FileNotFoundError: The training file does not exist.
        ValueError: The labels are not known, or not those of the run.
    """
    labels = config.labels
    if not labels and not config.regression:
        known = kept.labels if of_run is None else tuple(of_run)
        if known is not None and "train" not in uses:
            return known
        labels = _labels_of_file(config, uses)
    if of_run is not None and tuple(of_run) != labels:
        raise ValueError(
            f"The labels are {_shown(labels)}, but the run in --output_dir was "
            f"trained with {_shown(of_run)}. Pass another --output_dir, "
            "or the file that this run was trained on."
        )
    return labels


def _labels_of_file(
    config: ClassificationConfig, uses: Sequence[str]
) -> tuple[str, ...]:
    path = None
    if "train" in uses or config.train_file:
        path = _file_of(config, "train")
    elif config.data_dir:
        with contextlib.suppress(FileNotFoundError):
            path = _file_of(config, "train")
    if path is None:
        raise ValueError(
            "The labels are not known: there is no training file, and no run "
            "in --output_dir. Pass --labels, --train_file, or the "
            "--output_dir of the run that trained the model."
        )
    if config.label_column is None:
        raise ValueError(
            f"The labels must be read from {path!r}, but their column is not "
            "known. Pass --label_column."
        )
    return examples_lib.read_labels(
        path, config.label_column, separator=config.separator
    )


def _shown(labels: Sequence[str]) -> str:
    if not labels:
        return "numbers (regression)"
    return table_files.shown_few(map(repr, labels))


def _read_examples(
    config: ClassificationConfig, uses: Sequence[str], labels: Sequence[str]
) -> dict[str, list[ClassificationExample]]:
    """Reads the examples to train on and to evaluate.

    With `validation_share`, those to evaluate are a part of the training file.

    Raises:
        FileNotFoundError: A file does not exist.
        ValueError: A file is not given or not as it must be; or there is a
            file to evaluate beside `validation_share`.
    """
    found: dict[str, list[ClassificationExample]] = {}
    if config.validation_share and {"train", "eval"} & {*uses}:
        _check_no_evaluation_file(config)
        found["train"], found["eval"] = validation_split.split(
            _read(config, "train", labels),
            share=config.validation_share,
            seed=config.validation_seed,
        )
    found = {
        use: found[use] if use in found else _read(config, use, labels)
        for use in uses
        if use != "predict"
    }
    if found.keys() >= {"train", "eval"}:
        validation_split.warn_of_repetitions(found["train"], found["eval"])
    return found


def _check_no_evaluation_file(config: ClassificationConfig) -> None:
    path = config.eval_file
    if not path and config.data_dir:
        with contextlib.suppress(FileNotFoundError):
            path = _file_of(config, "eval")
    if path:
        raise ValueError(
            "--validation_share holds rows of the training file out, but there "
            f"is a file to evaluate, {path!r}. Leave one of them out."
        )


def _read(
    config: ClassificationConfig, use: str, labels: Sequence[str]
) -> list[ClassificationExample]:
    columns = Columns(
        texts=config.text_columns,
        label=config.label_column,
        guid=config.id_column,
        separator=config.separator,
    )
    return examples_lib.read_examples(
        _file_of(config, use), columns, labels=labels
    )


def _complete(
    data: ClassificationData,
    config: ClassificationConfig,
    train: Sequence[ClassificationExample] | None,
    kept: Metadata,
) -> ClassificationData:
    """Returns the data with what the training examples or the weights decide.

    `train` are the examples to train on; None if the run does not train. Then
    scale and thresholds are those of the weights, of which `kept` is known.

    Raises:
        ValueError: A label is not one of the labels, or there are not as many
            weights as labels.
    """
    if config.positive_label and len(data.labels) != 2:
        raise ValueError(
            "--positive_label is for two labels. Received: "
            f"{len(data.labels)} ({_shown(data.labels)})."
        )
    if not data.is_multi_label and len(data.labels) == 2:
        data = dataclasses.replace(data, positive_label=_positive(data, config))
    if train is None:
        return dataclasses.replace(
            data,
            thresholds=kept.thresholds if data.is_multi_label else None,
            target_mean=kept.target_mean or 0.0,
            target_scale=kept.target_scale or 1.0,
        )
    if data.is_regression:
        numbers = np.array([one.label for one in train], np.float64)
        return dataclasses.replace(
            data,
            target_mean=float(numbers.mean()),
            # Equal labels have no spread to scale by.
            target_scale=float(numbers.std()) or 1.0,
        )
    return dataclasses.replace(
        data, class_weights=_class_weights(config, data.labels, train)
    )


def _positive(data: ClassificationData, config: ClassificationConfig) -> str:
    label = config.positive_label or data.labels[1]
    if label not in data.labels:
        raise ValueError(
            f"--positive_label must be one of {_shown(data.labels)}. "
            f"Received: {label!r}."
        )
    _logger.info(
        "The positive class, of %s, is %r%s.",
        ", ".join(
            key
            for name in data.score_names
            if (key := scores.key(name, label)) != name
        ),
        label,
        "" if config.positive_label else "; --positive_label names another",
    )
    return label


def _class_weights(
    config: ClassificationConfig,
    labels: Sequence[str],
    train: Sequence[ClassificationExample],
) -> tuple[float, ...]:
    given = config.class_weights
    if not given:
        return ()
    if given == (BALANCED,):
        counts = collections.Counter(one.label for one in train)
        weights = tuple(
            # A label that does not occur has nothing to weigh.
            len(train) / (len(labels) * counts[place]) if counts[place] else 0.0
            for place in range(len(labels))
        )
    else:
        weights = tuple(map(float, given))
        if len(weights) != len(labels):
            raise ValueError(
                f"--class_weights must be {BALANCED!r}, or one weight for each "
                f"of the labels {', '.join(map(repr, labels))}. Received: "
                f"{','.join(given)}."
            )
    _logger.info(
        "Weights of the classes: %s.",
        ", ".join(
            f"{label!r} {weight:.4g}"
            for label, weight in zip(labels, weights, strict=True)
        ),
    )
    return weights
