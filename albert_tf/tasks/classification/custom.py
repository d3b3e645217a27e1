"""Tables of one's own: their files, their labels, the rows held out.

Data flow: flags of a custom task -> [this file] -> `sets.read_sets`.
"""

import collections
import dataclasses
import functools
import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from albert_tf import checks
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.tasks import example_files
from albert_tf.tasks.classification import examples as examples_lib
from albert_tf.tasks.classification import scores
from albert_tf.tasks.classification.data import ClassificationData
from albert_tf.tasks.classification.examples import (
    ClassificationExample,
    TableStream,
)
from albert_tf.tasks.example_files import RowsInMemory, Source
from albert_tf.tasks.task import SPLITS, Examples
from albert_tf.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from albert_tf.tasks.classification.sets import ClassificationConfig

_logger = logging.getLogger(__name__)
_VERBS = {"train": "train on", "eval": "evaluate"}
# Returns the `Source` of a use, which may be optional.
_FindFile: TypeAlias = Callable[..., Any]


def read_examples(
    config: "ClassificationConfig",
    uses: Sequence[str],
    *,
    tokenizer: Tokenizer,
    max_seq_length: int,
    weights: Checkpoint,
    given_examples: Mapping[str, RowsInMemory],
) -> tuple[ClassificationData, dict[str, Examples]]:
    """Reads the examples of a custom task by use; see `sets.read_sets`."""
    kept = weights.metadata
    if not config.label_column and {"train", "eval"} & {*uses}:
        raise ValueError("--label_column must be given.")
    if "train" not in uses:
        config = dataclasses.replace(
            config, multi_label=config.multi_label or bool(kept.multi_label)
        )
        _check_fits_weights(config, uses, kept, weights.settings)
    find_file = functools.partial(_find_file, config, given_examples)
    labels = _find_labels(config, uses, kept.labels, find_file)
    examples = _read_examples(config, uses, labels, find_file)
    if "train" in uses:
        fitted = _fitted(config, labels, examples["train"])
    else:
        fitted = {
            "thresholds": kept.thresholds if config.multi_label else None,
            "target_mean": kept.target_mean or 0.0,
            "target_scale": kept.target_scale or 1.0,
        }
    data = ClassificationData(
        name=config.name,
        labels=labels,
        score_names=scores.names_for(labels, multi_label=config.multi_label),
        tokenizer=tokenizer,
        max_seq_length=max_seq_length,
        has_class_scores=bool(labels),
        positive_label=_positive_label(config, labels),
        label_separator=config.columns.separator,
        text_columns=config.text_columns,
        validation=config.validation,
        **fitted,
    )
    if "predict" in uses:
        examples["predict"] = TableStream(
            find_file("predict"),
            dataclasses.replace(config.columns, label=None),
        )
    return data, examples


def _check_fits_weights(
    config: "ClassificationConfig",
    uses: Sequence[str],
    kept: Metadata,
    kept_settings: Mapping[str, Any],
) -> None:
    """Checks that rows are used as the weights in use were trained."""
    if config.multi_label and kept.task and not kept.multi_label:
        raise ValueError(
            "The weights in use were trained with one label a row. Leave "
            "--multi_label out."
        )
    columns, trained = [*config.text_columns], kept_settings.get("text_columns")
    if trained and (
        len(trained) != len(columns)
        or (trained != columns and {*trained} == {*columns})
    ):
        raise ValueError(
            f"The weights in use were trained with --text_columns="
            f"{','.join(trained)}. Received: {','.join(columns)}. Pass the "
            "columns of the same texts in the same order; their names may "
            "differ."
        )
    held_out, trained = config.validation, kept_settings.get("validation")
    if (
        "eval" in uses
        and held_out
        and kept_settings.get("task") == config.name
        and trained != [*held_out]
    ):
        raise ValueError(
            "The weights in use have seen rows that --validation_share and "
            "--validation_seed would evaluate: they were trained with "
            f"{trained}, not {[*held_out]}. Pass the values of the training, "
            "or an --eval_file."
        )


def _find_file(
    config: "ClassificationConfig",
    given_examples: Mapping[str, RowsInMemory],
    use: str,
    *,
    is_optional: bool = False,
) -> Any:
    """Returns the `Source` of a use: what is named, or found in the folder."""
    named = use in given_examples or getattr(config, f"{use}_file")
    if is_optional and not (named or config.data_dir):
        return None
    path = example_files.given_file(config, use, given_examples)
    folder, split = config.data_dir or "", SPLITS[use]
    path = path or examples_lib.find_split(folder, split)
    if not (path or is_optional):
        raise FileNotFoundError(
            f"There is no {split}.tsv, {split}.csv or {split}.jsonl in "
            f"{folder!r}. Check the folder, or name the file itself."
        )
    return path


def _find_labels(
    config: "ClassificationConfig",
    uses: Sequence[str],
    known: tuple[str, ...] | None,
    find_file: _FindFile,
) -> tuple[str, ...]:
    """Returns all labels, in the order of the logits; none for regression.

    They are those of the flag; else, if the run does not train, the `known`
    ones, of the weights in use; else those of the training file.
    """
    if config.labels or config.regression:
        return config.labels
    if known is not None and "train" not in uses:
        return known
    path = find_file("train", is_optional="train" not in uses)
    if not path or not config.label_column:
        raise ValueError(
            "The labels are not known: there is no run in --output_dir. Pass "
            "--labels; or --train_file and --label_column; or the --output_dir "
            "of the run that trained the model."
        )
    return examples_lib.read_labels(
        path, config.label_column, separator=config.columns.separator
    )


def _read_examples(
    config: "ClassificationConfig",
    uses: Sequence[str],
    labels: Sequence[str],
    find_file: _FindFile,
) -> dict[str, Examples]:
    """Reads the examples to train on and to evaluate.

    With `validation_share`, those to evaluate are a part of the training file.
    """
    uses = [use for use in uses if use != "predict"]
    if not uses:
        return {}
    examples: dict[str, Examples] = {}
    share, to_evaluate = config.validation_share, None
    if share or "eval" in uses:
        to_evaluate = find_file("eval", is_optional=True)
    if "eval" in uses and not (to_evaluate or config.data_dir or share):
        raise ValueError(
            "Pass the rows to evaluate as --eval_file, or hold rows of the "
            "training file out, such as a tenth: --validation_share=0.1."
        )
    if share:
        if to_evaluate:
            raise ValueError(
                "--validation_share holds rows of the training file out, but "
                f"there is a file to evaluate, {str(to_evaluate)!r}. Leave one "
                "of them out."
            )
        examples["train"], examples["eval"] = split(
            _read(config, find_file("train"), labels),
            share=share,
            seed=config.validation_seed,
        )
    examples = {
        use: examples.get(use) or _read(config, find_file(use), labels)
        for use in uses
    }
    for use, rows in examples.items():
        _warn_of_rare_labels(use, rows, labels)
        if empty := sum(not row.text_a.strip() for row in rows):
            _logger.warning(
                "%d of the %d rows to %s have no text.",
                empty,
                len(rows),
                _VERBS[use],
            )
    return examples


def _read(
    config: "ClassificationConfig", source: Source, labels: Sequence[str]
) -> list[ClassificationExample]:
    return examples_lib.read_examples(source, config.columns, labels=labels)


def split(
    examples: Sequence[ClassificationExample], *, share: float, seed: int
) -> tuple[list[ClassificationExample], list[ClassificationExample]]:
    """Divides examples; about a `share` of them is in the second part.

    The part of a row follows from its texts and the seed alone, so that it
    stays the same whatever rows are added, removed or sorted. Rows with the
    same texts are in the same part.
    """
    parts: tuple[list[ClassificationExample], ...] = ([], [])
    for example in examples:
        content = json.dumps([seed, example.text_a, example.text_b])
        digest = hashlib.sha256(content.encode()).digest()
        position = int.from_bytes(digest[:8]) / 2**64
        parts[position < share].append(example)
    if not all(parts):
        raise ValueError(
            f"--validation_share={share} of {len(examples)} rows holds "
            f"{len(parts[1])} out. Pass a share that leaves rows on both "
            "sides, or an --eval_file."
        )
    return parts[0], parts[1]


def _warn_of_rare_labels(
    use: str, rows: Sequence[ClassificationExample], labels: Sequence[str]
) -> None:
    """Logs labels that few rows have: their scores mean little."""
    counts = collections.Counter(
        index
        for row in rows
        for index in (
            row.label if isinstance(row.label, tuple) else [row.label]
        )
    )
    rare = [
        f"{label!r} ({counts[i]})"
        for i, label in enumerate(labels)
        if counts[i] < scores.LEAST_EXAMPLES
    ]
    if rare:
        _logger.warning(
            "Of the %d rows to %s, too few to rely on have the label %s. Check "
            "how it is spelt, or pass more rows.",
            len(rows),
            _VERBS[use],
            checks.listed(rare),
        )


def _positive_label(
    config: "ClassificationConfig", labels: Sequence[str]
) -> str:
    """Returns the label that F1 is of, empty where it is of several ones."""
    label = config.positive_label
    if label and (len(labels) != 2 or label not in labels):
        raise ValueError(
            "--positive_label must be one of two labels. Received: "
            f"{label!r}, and the labels {checks.listed(map(repr, labels))}."
        )
    if len(labels) != 2 or config.multi_label:
        return ""
    return label or labels[1]


def _fitted(
    config: "ClassificationConfig",
    labels: Sequence[str],
    examples: Sequence[ClassificationExample],
) -> dict[str, Any]:
    """Returns the scale of the numbers, or the weights of the labels."""
    if labels:
        return {"class_weights": _class_weights(config, labels, examples)}
    targets = np.array([example.label for example in examples], np.float64)
    # Equal labels have no spread to scale by.
    scale = float(targets.std()) or 1.0
    return {"target_mean": float(targets.mean()), "target_scale": scale}


def _class_weights(
    config: "ClassificationConfig",
    labels: Sequence[str],
    examples: Sequence[ClassificationExample],
) -> tuple[float, ...]:
    """Returns the weights of the labels in the loss; empty for 1."""
    if config.class_weights == (examples_lib.BALANCED,):
        counts = collections.Counter(example.label for example in examples)
        return tuple(
            # A label that does not occur has nothing to weigh.
            len(examples) / (len(labels) * counts[i]) if counts[i] else 0.0
            for i in range(len(labels))
        )
    weights = tuple(map(float, config.class_weights))
    for weight in weights:
        checks.check_number("class_weights", weight, above=0)
    if len(weights) not in (0, len(labels)):
        raise ValueError(
            f"--class_weights must be {examples_lib.BALANCED}, or one weight "
            f"for each of the labels {checks.listed(map(repr, labels))}. "
            f"Received: {len(weights)} weights."
        )
    return weights
