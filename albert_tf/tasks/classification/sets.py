"""All sets of examples that one run needs, read before anything is trained.

Data flow: names of files -> [this file] -> examples by use -> the run's job.
Floor: tasks. Plain Python.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence

from albert_tf import files
from albert_tf.tasks.classification import custom, glue
from albert_tf.tasks.classification import examples as examples_lib
from albert_tf.tasks.classification.examples import (
    ClassificationExample,
    Columns,
)
from albert_tf.tasks.classification.glue import GlueDataset, SetFile

CUSTOM = "custom"
# What a run does with a split of the data.
SPLITS = {"train": "train", "eval": "dev", "predict": "test"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilesToRead:
    """Which files a run reads.

    Args:
        uses: Of `train`, `eval` and `predict`, what the run does.
        data_dir: Folder of the sets; None if files are named.
        named: By use, a file instead of those in the folder; None for none.
    """

    uses: Sequence[str]
    data_dir: str | None = None
    named: Mapping[str, str | None] = dataclasses.field(default_factory=dict)

    def folder(self, use: str) -> str:
        """Returns the folder to look for a use's files in.

        Raises:
            ValueError: There is none.
        """
        if not self.data_dir:
            raise ValueError(f"--data_dir or --{use}_file must be given.")
        return files.check_local(self.data_dir)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExamplesOfFile:
    """Examples, and which set of the task they are; `source.path` is whole."""

    source: SetFile
    examples: Sequence[ClassificationExample]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskSets:
    """A task and its examples.

    Args:
        name: Name of the task.
        labels: In the order of the logits; empty for regression.
        score_names: See `ClassificationData`.
        prediction_range: See `ClassificationData`.
        sets: By use, the sets in their order.
    """

    name: str
    labels: tuple[str, ...]
    score_names: tuple[str, ...]
    prediction_range: tuple[float, float] | None = None
    sets: Mapping[str, Sequence[ExamplesOfFile]]


def read_glue(dataset: GlueDataset, wanted: FilesToRead) -> TaskSets:
    """Reads the sets of a task of GLUE.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file is not as GLUE's; or no folder is given.
    """
    sources = {
        "train": (SetFile(path=dataset.train_file),),
        "eval": dataset.eval_files,
        "predict": dataset.predict_files,
    }
    return TaskSets(
        name=dataset.name,
        labels=dataset.labels,
        score_names=dataset.score_names,
        prediction_range=dataset.prediction_range,
        sets={
            use: [
                ExamplesOfFile(
                    source=source,
                    examples=glue.read_examples(
                        dataset,
                        source.path,
                        split=SPLITS[use],
                        is_labelled=use != "predict",
                    ),
                )
                for source in _with_whole_paths(sources[use], use, wanted)
            ]
            for use in wanted.uses
        },
    )


def _with_whole_paths(
    sources: Sequence[SetFile], use: str, wanted: FilesToRead
) -> list[SetFile]:
    named = wanted.named.get(use)
    if named:
        return [dataclasses.replace(sources[0], path=named)]
    folder = wanted.folder(use)
    return [
        dataclasses.replace(one, path=os.path.join(folder, one.path))
        for one in glue.existing_sets(folder, sources)
    ]


def read_custom(
    columns: Columns, labels: tuple[str, ...], wanted: FilesToRead
) -> TaskSets:
    """Reads tables of one's own.

    Args:
        columns: Which columns hold what; the label is not read for `predict`.
        labels: All labels; empty for regression.
        wanted: Which files to read.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file is not as `columns` says; or no folder is given.
    """
    sets = {}
    for use in wanted.uses:
        path = custom_file(use, wanted)
        is_labelled = use != "predict"
        examples = examples_lib.read_examples(
            path,
            columns
            if is_labelled
            else dataclasses.replace(columns, label=None),
            labels=labels,
        )
        sets[use] = [
            ExamplesOfFile(source=SetFile(path=path), examples=examples)
        ]
    return TaskSets(
        name=CUSTOM,
        labels=labels,
        score_names=custom.score_names(labels),
        sets=sets,
    )


def custom_file(use: str, wanted: FilesToRead) -> str:
    """Returns the file of a table for one use.

    Raises:
        FileNotFoundError: The folder has none.
        ValueError: It has several, or there is no folder.
    """
    named = wanted.named.get(use)
    if named:
        return named
    return examples_lib.find_split(wanted.folder(use), SPLITS[use])
