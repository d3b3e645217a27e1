"""The flags of the head that classification and multiple choice share.

Plain Python, so that the flags are read before any slow import.
"""

import dataclasses
from typing import Any

from albert_tf import settings
from albert_tf.devices.device_settings import DeviceSettings
from albert_tf.settings import Settings, SettingValues, setting
from albert_tf.tasks.planning import PlanRequest
from albert_tf.tasks.spec import ServingSettings

PATIENCE_HELP = (
    "Early exit: an example leaves the model once its prediction has stayed "
    "the same for this number of layers; 0 for never."
)


def dropout(text: str) -> Any:
    """Returns the `setting` of a dropout rate, with its help."""
    return setting(0.1, text, affects_training=True, at_least=0, below=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadFlags(Settings):
    """Flags of a head over the pooled output."""

    dropout_prob: float = dropout("Dropout rate of the pooled output.")
    exit_patience: int = setting(
        0,
        f"{PATIENCE_HELP} Good after a training with --random_depth. For the "
        "predictions and scores of the final weights; evaluations during the "
        "training use all layers.",
    )


DEFAULT_HEAD = HeadFlags()


@dataclasses.dataclass(frozen=True, kw_only=True)
class EarlyExitSettings(ServingSettings):
    """The settings of an export of a head over the pooled output."""

    not_in_runtimes = ("exit_patience",)

    exit_patience: int = setting(0, f"classifier, race: {PATIENCE_HELP}")


def check_single_label(patience: int, *, has_one_label: bool) -> None:
    """Checks that an example has one label, which can stay the same."""
    if patience and not has_one_label:
        raise ValueError(
            "`exit_patience` cannot be used for regression and multi-label "
            f"classification. Received: exit_patience={patience}."
        )


def check_devices(request: PlanRequest) -> SettingValues:
    """Checks, before the training, that the devices can drop examples."""
    task_config, run_settings = request.task_config, request.settings
    is_early = isinstance(task_config, HeadFlags) and task_config.exit_patience
    if is_early and (
        run_settings["use_tpu"]
        or settings.read(DeviceSettings, run_settings).uses_tpu
    ):
        raise ValueError(
            "`exit_patience` needs batches that shrink, which a TPU does not "
            "have. Leave it out, or predict on other devices."
        )
    return {}
