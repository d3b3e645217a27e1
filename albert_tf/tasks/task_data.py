"""What fine-tuning needs of a task's data half: plain Python and NumPy.

Data flow: examples -> records -> [model] -> outputs -> scores, files.
Floor: tasks. No TensorFlow, so that a script reads and checks its files
before it pays for the import.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from albert_tf import features

# The task's own dataclass; each has a `guid: str` that no other one has.
Examples = Sequence[Any]
Record = dict[str, np.ndarray]
# By name, one row per record in the order of the records: arrays `[N, ...]`;
# for outputs along the sequence, N arrays of the records' own lengths.
Outputs = Mapping[str, np.ndarray | list[np.ndarray]]


class TaskData(Protocol):
    """Examples to records, and outputs to scores and files.

    It may offer `report_sections(examples, outputs) -> list[dict]` as well:
    each dict is a table (`title`, `header`, `rows` of text), a chart (`title`,
    `unit`, `curves` of points by name, `x_label`) or bars (`title`, `unit`,
    `bars` by name) of `report.html`.
    """

    @property
    def name(self) -> str:
        """Name of the task, such as `cola`."""
        ...

    @property
    def headline(self) -> str:
        """Key of the score that chooses the best weights; high is good."""
        ...

    @property
    def vocab_size(self) -> int:
        """Pieces of the vocabulary that the records are made with."""
        ...

    @property
    def array_specs(self) -> tuple[features.ArraySpec, ...]:
        """The arrays of a record."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """JSON values: everything that makes the records of an example.

        Task, lengths, stride, labels, hash of the tokenizer: records that are
        stored are used again only where all of it is the same.
        """
        ...

    def records(
        self, examples: Examples, *, is_training: bool
    ) -> Iterator[Record]:
        """Yields the records of the examples; one may have several."""
        ...

    def scores(self, examples: Examples, outputs: Outputs) -> dict[str, float]:
        """Returns the official scores of labelled examples."""
        ...

    def write_predictions(
        self, examples: Examples, outputs: Outputs, output_dir: str
    ) -> list[str]:
        """Writes the task's files; returns their paths."""
        ...
