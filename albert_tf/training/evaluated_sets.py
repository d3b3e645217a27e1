"""The sets of a run as its model sees them: outputs, scores, verdict, files.

Floor: training.
"""

import logging
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.tasks.task_data import Outputs
from albert_tf.training import (
    collapse,
    finetune_report,
    prediction,
    run_folder,
)
from albert_tf.training.finetune_options import FinetuningJob
from albert_tf.training.record_sets import RecordSet, RecordSets

_LOGGER = logging.getLogger(__name__)

_LABELS = "label_ids"


class EvaluatedSets:
    """What the model of a predictor says of a job's sets.

    Outputs are computed once, until the weights are said to have changed.

    Args:
        job: The run.
        sets: Its records.
        predictor: Of the model.
    """

    def __init__(
        self,
        job: FinetuningJob,
        sets: RecordSets,
        predictor: prediction.Predictor,
    ) -> None:
        self._job = job
        self._sets = sets
        self._predictor = predictor
        self._outputs_by_set: dict[str, Outputs] = {}

    def forget(self) -> None:
        """Drops all outputs, because the weights have changed."""
        self._outputs_by_set.clear()

    def predict(self) -> None:
        """Computes the outputs of the sets to predict.

        All workers do, before one of them writes.
        """
        for one in self._sets.prediction:
            self._outputs(one, self._job.finetuning.predict_batch_size)

    def scores(self) -> dict[str, float]:
        """Returns the scores of all evaluation sets."""
        scores: dict[str, float] = {}
        for one in self._sets.evaluation:
            own = one.data.scores(one.examples, self._outputs(one))
            suffix = f"_{one.name}" if one.name else ""
            scores |= {
                f"{key}{suffix}": _defined(key, value)
                for key, value in own.items()
            }
        return scores

    @property
    def can_be_judged(self) -> bool:
        """Whether one prediction for all of the first set is a bad sign."""
        return bool(self._sets.evaluation) and _can_be_judged(
            self._sets.evaluation[0]
        )

    def verdict(self) -> str | None:
        """Says that the first set's predictions are constant, if they are.

        Returns:
            A sentence, or None; see `collapse.are_constant`.
        """
        if not self.can_be_judged:
            return None
        main = self._sets.evaluation[0]
        outputs = self._outputs(main)
        if not collapse.are_constant(outputs, labels_of(main)):
            return None
        which = "All" if collapse.are_constant(outputs) else "All but a few of"
        return (
            f"{which} {main.columns.num_records} records of the evaluation set "
            "got the same prediction."
        )

    def write(self, results: Mapping[str, Any]) -> None:
        """Writes the predictions, and `results` and the report.

        Without an evaluation set there are only the predictions.

        Args:
            results: For `eval_results.json` and the report; JSON values.
        """
        folder = self._job.output_dir
        for one in self._sets.evaluation:
            name = "_".join(filter(None, ("eval", one.name)))
            self._write_predictions(one, os.path.join(folder, name))
        for one in self._sets.prediction:
            paths = self._write_predictions(
                one, os.path.join(folder, one.name) if one.name else folder
            )
            _LOGGER.info("Predictions: %s.", ", ".join(paths))
        if self._sets.evaluation:
            main = self._sets.evaluation[0]
            run_folder.write_results(folder, results)
            finetune_report.write(
                self._job,
                results=results,
                records=main,
                outputs=self._outputs(main),
            )

    def _outputs(self, records: RecordSet, batch_size: int = 0) -> Outputs:
        """Returns the outputs of a set by the weights as they are.

        Of a set that is evaluated and predicted they are computed once.
        """
        if records.key not in self._outputs_by_set:
            self._outputs_by_set[records.key] = self._predictor.run(
                records.columns,
                batch_size=batch_size or self._job.training.eval_batch_size,
            )
        return self._outputs_by_set[records.key]

    def _write_predictions(self, records: RecordSet, folder: str) -> list[str]:
        os.makedirs(folder, exist_ok=True)
        return records.data.write_predictions(
            records.examples, self._outputs(records), folder
        )


def labels_of(records: RecordSet) -> np.ndarray | None:
    """Returns the labels of records, `[N]`; None if they have none."""
    columns = records.columns
    return columns.field(_LABELS) if _LABELS in columns.values else None


def _can_be_judged(records: RecordSet) -> bool:
    if records.columns.num_records < collapse.LEAST_RECORDS:
        return False
    labels = labels_of(records)
    return labels is None or bool((labels != labels[0]).any())


def _defined(key: str, value: float) -> float:
    if math.isfinite(value):
        return value
    _LOGGER.warning("%s is %s, which is taken for 0.", key, value)
    return 0.0
