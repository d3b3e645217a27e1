"""What a run reports: JSON lines, TensorBoard scalars."""

import datetime
import itertools
import json
import logging
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf import files
from albert_tf.metrics.scores import Scores

_LOGGER = logging.getLogger(__name__)

FILE_NAME = "metrics.jsonl"
_EVALUATED = "eval_"  # what keys of scores begin with
# Totals of a window that are not divided by its number of updates.
_COUNTED = ("updates", "seconds", "examples", "tokens")


class MetricLog:
    """Writes the log of a run, and continues it after a restart.

    The lines after `last_step`, that of the checkpoint or None for a new run,
    are dropped, because their steps will be repeated; and, unless it
    `is_evaluated`, those from its evaluation on.
    """

    def __init__(
        self,
        output_dir: str,
        *,
        last_step: int | None,
        is_evaluated: bool = True,
        is_writer: bool = True,
    ) -> None:
        self._path = os.path.join(output_dir, FILE_NAME)
        self._is_writer = is_writer
        self._output_dir = output_dir
        # Made when it is needed: a finished run leaves no further file.
        self._events: tf.summary.SummaryWriter | None = None
        if not is_writer or not os.path.exists(self._path):
            return
        end = (-1 if last_step is None else last_step, is_evaluated)
        lines = itertools.takewhile(
            lambda line: (line["step"], _is_of_evaluation(line)) <= end,
            files.read_json_lines(self._path),
        )
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        if text != files.read_text(self._path):
            files.write_text(self._path, text)

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Adds a line with the time in UTC; a TensorBoard scalar a number."""
        if not self._is_writer:
            return
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        line = json.dumps({"step": step, "time": now, **values})
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(line + "\n")
        if self._events is None:
            self._events = tf.summary.create_file_writer(self._output_dir)
        with self._events.as_default():
            for name, value in values.items():
                if isinstance(value, int | float):
                    tf.summary.scalar(name, value, step)

    def write_scores(
        self,
        step: int,
        scores: Scores,
        facts: Mapping[str, Any],
        *,
        metric: str = "",
    ) -> None:
        """Adds the line of an evaluation, with facts, and logs its scores.

        Those of single classes are not logged, but for the `metric`.
        """
        values = scores.flat().items()
        line = {f"{_EVALUATED}{key}": value for key, value in values}
        self.write(step, {**line, **facts})
        if self._is_writer:
            shown = ", ".join(
                f"{score.key} {score.value:.4g}"
                for score in scores
                if not score.of or score.key == metric
            )
            _LOGGER.info("Evaluation after step %d: %s", step, shown)

    def close(self) -> None:
        """Closes what TensorBoard reads."""
        if self._events is not None:
            self._events.close()


def _is_of_evaluation(line: Mapping[str, Any]) -> bool:
    return any(key.startswith(_EVALUATED) for key in line)


def window_line(window: Mapping[str, float]) -> dict[str, float]:
    """Returns the means over a window, and rates per second."""
    line = {
        name: value / window["updates"]
        for name, value in window.items()
        if name not in _COUNTED
    }
    line["sequences_per_second"] = window["examples"] / window["seconds"]
    line["tokens_per_second"] = window["tokens"] / window["seconds"]
    return line


def read_lines(output_dir: str) -> list[dict[str, Any]]:
    """Returns the complete lines of a run's log; none if it has no log."""
    path = os.path.join(output_dir, FILE_NAME)
    return files.read_json_lines(path) if os.path.exists(path) else []
