"""The sets of GLUE: files, columns, labels, scores, submissions.

Data flow: GLUE's own TSV files -> [this file] -> examples.
Source: Wang et al. 2018 (GLUE) and gluebenchmark.com (submissions);
google-research/albert, `classifier_utils` (the order of labels).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.tasks import example_files, labelled_texts
from albert_tf.tasks.example_files import Source
from albert_tf.tasks.labelled_texts import ClassificationExample


class SetFile(NamedTuple):
    """One file of examples, with its path below the folder of GLUE.

    The leaderboard takes the `submission_file`. Additional sets have a name.
    """

    path: str
    submission_file: str = ""
    name: str = ""
    is_optional: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class GlueDataset:
    """One task of GLUE; see also `ClassificationData`.

    Args:
        files: The files of `train`, `eval` and `predict`, the last without
            labels; the first of each is the main set.
        id_column: Column of the row's id, in files that have it.
        labelled_header: Columns of labelled files that have no header row.
        skips_broken_rows: See `labelled_texts.read_examples`.
    """

    name: str
    text_columns: tuple[str, ...]
    label_column: str = "label"
    labels: tuple[str, ...] = ("0", "1")
    score_names: tuple[str, ...] = ("accuracy",)
    files: Mapping[str, tuple[SetFile, ...]]
    id_column: str = "index"
    labelled_header: tuple[str, ...] | None = None
    skips_broken_rows: bool = False
    prediction_range: tuple[float, float] | None = None


_SENTENCES = ("sentence1", "sentence2")
_ENTAILMENT = ("entailment", "not_entailment")
_MNLI_DEV = (
    SetFile("MNLI/dev_matched.tsv"),
    SetFile("MNLI/dev_mismatched.tsv", name="mismatched"),
)
_MNLI_TEST = (
    SetFile("MNLI/test_matched.tsv", "MNLI-m.tsv"),
    SetFile("MNLI/test_mismatched.tsv", "MNLI-mm.tsv", name="mismatched"),
)
_DIAGNOSTIC = SetFile(
    "diagnostic/diagnostic.tsv", "AX.tsv", name="ax", is_optional=True
)


def _one_folder(folder: str, **fields: Any) -> GlueDataset:
    """Returns a task of the files `train.tsv`, `dev.tsv` and `test.tsv`."""
    return GlueDataset(
        name=folder.lower(),
        files={
            "train": (SetFile(f"{folder}/train.tsv"),),
            "eval": (SetFile(f"{folder}/dev.tsv"),),
            "predict": (SetFile(f"{folder}/test.tsv", f"{folder}.tsv"),),
        },
        **fields,
    )


def _mnli(
    name: str, evaluation: Sequence[SetFile], prediction: Sequence[SetFile]
) -> GlueDataset:
    return GlueDataset(
        name=name,
        text_columns=_SENTENCES,
        label_column="gold_label",
        labels=("contradiction", "entailment", "neutral"),
        files={
            "train": (SetFile("MNLI/train.tsv"),),
            "eval": tuple(evaluation),
            "predict": tuple(prediction),
        },
    )


def _alone(set_file: SetFile) -> SetFile:
    """Returns an additional set as the main set of a task."""
    return set_file._replace(name="", is_optional=False)


_ALL = (
    _one_folder(
        "CoLA",
        text_columns=("sentence",),
        score_names=("matthews_correlation", "accuracy"),
        labelled_header=("source", "label", "star", "sentence"),
    ),
    _one_folder("SST-2", text_columns=("sentence",)),
    _one_folder(
        "MRPC",
        text_columns=("#1 String", "#2 String"),
        label_column="Quality",
        score_names=("accuracy", "f1"),
    ),
    _one_folder(
        "STS-B",
        text_columns=_SENTENCES,
        label_column="score",
        labels=(),
        score_names=("pearson", "spearman", "mean_squared_error"),
        prediction_range=(0.0, 5.0),
    ),
    _one_folder(
        "QQP",
        text_columns=("question1", "question2"),
        label_column="is_duplicate",
        score_names=("accuracy", "f1"),
        id_column="id",
        # Some published rows are torn at a line break within a question.
        skips_broken_rows=True,
    ),
    _mnli("mnli", _MNLI_DEV, [*_MNLI_TEST, _DIAGNOSTIC]),
    # The original's name for MNLI with the mismatched sets alone.
    _mnli("mismnli", [_alone(_MNLI_DEV[1])], [_alone(_MNLI_TEST[1])]),
    _one_folder(
        "QNLI", text_columns=("question", "sentence"), labels=_ENTAILMENT
    ),
    _one_folder("RTE", text_columns=_SENTENCES, labels=_ENTAILMENT),
    _one_folder("WNLI", text_columns=_SENTENCES),
    # The diagnostic set alone, with a model of MNLI.
    _mnli("ax", _MNLI_DEV, [_alone(_DIAGNOSTIC)]),
)
GLUE_DATASETS: Mapping[str, GlueDataset] = {
    dataset.name: dataset for dataset in _ALL
}


def prediction_range(task: str | None) -> tuple[float, float] | None:
    """Returns the range that numbers of a task are clipped to, if any."""
    dataset = GLUE_DATASETS.get(task or "")
    return dataset.prediction_range if dataset else None


def read_examples(
    dataset: GlueDataset, path: Source, split: str
) -> list[ClassificationExample]:
    """Reads one file of a task; rows without an id are `dev-0`, `dev-1`, ..."""
    is_labelled = split != "test"
    header = dataset.labelled_header if is_labelled else None
    has_id = dataset.id_column in (header or example_files.read_header(path))
    columns = labelled_texts.Columns(
        texts=dataset.text_columns,
        label=dataset.label_column if is_labelled else None,
        guid=dataset.id_column if has_id else None,
        header=header,
    )
    return labelled_texts.read_examples(
        path,
        columns,
        labels=dataset.labels,
        guid_prefix=f"{split}-",
        skips_broken_rows=is_labelled and dataset.skips_broken_rows,
    )
