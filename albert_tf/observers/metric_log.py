"""Writes the log of a run, `metrics.jsonl`: one line of JSON each time."""

import datetime
import itertools
import json
import os
from collections.abc import Mapping
from typing import Any

from albert_tf import files
from albert_tf.training import run_tables
from albert_tf.training.callbacks import EVALUATION_PREFIX, Callback

FILE_NAME = run_tables.LOG_FILE


class MetricLog(Callback):
    """Writes lines with the step and the time in UTC.

    A run that resumes drops the lines after its checkpoint, because it repeats
    these steps; and the line of an evaluation that it will repeat.
    """

    def on_begin(self) -> None:
        """Drops lines that the run will write again."""
        path = self._path
        if not self.run.is_training or not os.path.exists(path):
            return
        last_step = self.run.step if self.run.is_resumed else -1
        end = (last_step, self.run.is_evaluated)
        lines = itertools.takewhile(
            lambda line: (line["step"], _is_of_evaluation(line)) <= end,
            files.read_json_lines(path),
        )
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        if text != files.read_text(path):
            files.write_text(path, text)

    def on_log(self, step: int, numbers: Mapping[str, Any]) -> None:
        """Appends a line."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        line = json.dumps({"step": step, "time": now, **numbers})
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(line + "\n")

    @property
    def _path(self) -> str:
        return os.path.join(self.run.config.output_dir, FILE_NAME)


def _is_of_evaluation(line: files.JsonObject) -> bool:
    return any(key.startswith(EVALUATION_PREFIX) for key in line)


def read_lines(output_dir: str) -> list[files.JsonObject]:
    """Returns the complete lines of a run's log; none if it has no log."""
    path = os.path.join(output_dir, FILE_NAME)
    return files.read_json_lines(path) if os.path.exists(path) else []
