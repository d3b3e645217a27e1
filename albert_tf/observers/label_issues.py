"""Lists the rows of a cross-validation whose labels are probably wrong.

Data flow: labels, probabilities of folds -> [this file] -> label_issues.tsv.
"""

import logging
import os

from albert_tf import files
from albert_tf.metrics import label_issues
from albert_tf.metrics.scores import Scores
from albert_tf.tasks import error_tables, prediction_tables
from albert_tf.tasks.task_data import ExampleSet, Outputs
from albert_tf.training.callbacks import Callback, Result
from albert_tf.training.run_config import FinetuningConfig

_LOGGER = logging.getLogger(__name__)

FILE_NAME = "label_issues.tsv"
_HEADER = (
    *("id", "label", "probability"),
    *("likelier_label", "likelier_probability", "text"),
)


class LabelIssues(Callback):
    """Writes `label_issues.tsv` when all folds have ended."""

    def on_end(
        self, result: Result | None, error: BaseException | None
    ) -> None:
        """Writes the table, if the examples have labels."""
        config, sets = self.run.config, self.run.sets
        if not (result and sets and isinstance(config, FinetuningConfig)):
            return
        if config.num_folds > 1:
            path = os.path.join(config.output_dir, FILE_NAME)
            write(path, sets.evaluation[0], result.outputs, result.scores)


def write(
    path: str, evaluated: ExampleSet, outputs: Outputs, scores: Scores
) -> None:
    """Writes the doubtful labels, the least probable first."""
    examples, num_labels = evaluated.examples, 0
    table: list[tuple[float, dict[str, str]]] = []
    for each in evaluated.data.labelled(examples, outputs, scores):
        num_labels += len(each.labels)
        rows, likelier = label_issues.find(each.labels, each.probabilities)
        for row, other in zip(rows, likelier, strict=True):
            label, shares = each.labels[row], each.probabilities[row]
            example = examples[each.examples[row]]
            own = each.names[label], f"{shares[label]:.4f}"
            others = each.names[other], f"{shares[other]:.4f}"
            text = error_tables.text_of(example)
            cells = (example.guid, *own, *others, text)
            fields = dict(zip(_HEADER, cells, strict=True))
            if each.words:
                fields["word"] = each.words[row]
            table.append((float(shares[label]), fields))
    if not num_labels:
        return
    table.sort(key=lambda pair: pair[0])
    header = table[0][1] if table else _HEADER
    lines = [header, *(fields.values() for _, fields in table)]
    with files.atomic_write(path) as file:
        file.writelines(map(prediction_tables.tsv_row, lines))
    _LOGGER.info(
        "%d of %d labels are doubtful: see %s, the most doubtful first.",
        len(table),
        num_labels,
        path,
    )
