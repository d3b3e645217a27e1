"""The request that the steps of a fine-tuning plan answer.

A step is a function of a `PlanRequest` that returns settings, by name, which
replace settings of the request; it changes nothing else. `training.plan` calls
the steps in order: its own steps, and the steps that `registry` names.
"""

import dataclasses
from collections.abc import Collection
from typing import Any

from albert_tf import settings as settings_lib
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.settings import SettingValues
from albert_tf.tasks.spec import FinetuningSpec, TaskConfig
from albert_tf.tasks.task_data import ExampleSet, Sets

# Each setting on the left can be given as the setting on the right instead.
RELATIVE = {
    "num_train_steps": "num_train_epochs",
    "num_warmup_steps": "warmup_proportion",
}
ALTERNATIVES = RELATIVE | {other: name for name, other in RELATIVE.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """A fine-tuning, as far as it is planned.

    Args:
        task_spec: The task that is fine-tuned.
        user_settings: The settings that the user gives.
        settings: All settings of the run and the task.
        albert_config: The shape of the model, with its dropout rates.
        checkpoint: The weights to start from, with config and vocabulary.
        weights: The weights to use without training, or to resume from.
        sets: The examples; empty before they are read.
        rows_in_memory: The uses, such as `train`, with rows in place of files.
    """

    task_spec: FinetuningSpec
    user_settings: SettingValues
    settings: SettingValues
    albert_config: AlbertConfig
    checkpoint: Checkpoint
    weights: Checkpoint
    sets: Sets[ExampleSet] = dataclasses.field(default_factory=Sets)
    rows_in_memory: Collection[str] = ()

    @property
    def task_config(self) -> TaskConfig:
        """The settings of the task."""
        return settings_lib.read(self.task_spec.config_class, self.settings)

    def undecided(self, proposed: SettingValues) -> dict[str, Any]:
        """Returns the proposed settings that the user has not decided.

        Steps and warm-up replace the default epochs and proportion, or the
        other way round, but no number that the user gives.
        """
        result: dict[str, Any] = {}
        for name, value in proposed.items():
            other = ALTERNATIVES.get(name)
            if not {name, other} & self.user_settings.keys():
                result[name] = value
                if other:
                    result[other] = None
        return result
