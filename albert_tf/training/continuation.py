"""Goes on from another run: with its weights, slots and step, otherwise set up.

So a pretraining can go over to longer sequences, larger batches or other
records when that was not planned as a schedule of one run.
"""

import logging
from collections.abc import Mapping
from typing import Any

from albert_tf.checkpoints import meaning, run_checkpoints
from albert_tf.checkpoints.train_state import Checkpointer
from albert_tf.training import run_folder
from albert_tf.training.run_config import RunConfig
from albert_tf.training.run_state import RunState

_LOGGER = logging.getLogger(__name__)

# What, beside the records, says which example is read when.
_ORDER_SETTINGS = ("random_seed", "read_order", "num_readers")


def restore(
    config: RunConfig,
    checkpointer: Checkpointer,
    fingerprint: Mapping[str, Any],
) -> RunState:
    """Sets weights and slots from the newest checkpoint of another run.

    Args:
        config: Names the run by `continue_from`.
        checkpointer: That of the new run.
        fingerprint: That of the new run, see `run_folder.fingerprint`.

    Returns:
        The state of the new run: step, the factor of the learning rate, and
        the examples read of records that are still read in the same order, are
        those of the other one. Other records are read from their start.

    Raises:
        ValueError: The folder is not that of a pretraining, or one of another
            model, objectives, optimizer or vocabulary; or it has as many steps
            already, without a time budget.
    """
    source = str(config.continue_from)
    theirs = run_folder.read_fingerprint(source)
    path = run_checkpoints.latest_checkpoint(source)
    if path is None or not theirs or theirs.get("task"):
        raise ValueError(
            f"{source!r} is not the output directory of a pretraining with a "
            "checkpoint. Pass that of one as --continue_from."
        )
    meaning.check_task(source, checkpointer.metadata)
    now = {
        "optimizer": config.optimizer,
        "objectives": [*config.objectives],
        **config.albert_config.to_dict(),
    }
    before = {**theirs, **theirs["config"]}
    for name, value in now.items():
        if name not in run_folder.DROPOUTS and before.get(name) != value:
            raise ValueError(
                f"The run of {source!r} cannot go on with other settings of "
                f"the model or the optimizer: {name} is {before.get(name)!r} "
                f"there, {value!r} here. Pass --init_checkpoint instead to "
                "start from its weights alone."
            )
    found = RunState.from_dict(checkpointer.restore(path))
    # With a time budget, it is the unit of the schedules and counts no updates.
    has_budget = config.progress.seconds is not None
    if found.step >= config.num_train_steps and not has_budget:
        raise ValueError(
            f"The run of {source!r} has done {found.step} steps, and "
            "--num_train_steps counts them. Pass a larger number. Received: "
            f"num_train_steps={config.num_train_steps}."
        )
    _LOGGER.info("Going on from %s.", path)
    read_alike = _read_alike(theirs, fingerprint)
    return RunState(
        step=found.step,
        skipped_batches=found.skipped_batches,
        examples_read={
            length: number if length in read_alike else 0
            for length, number in found.examples_read.items()
        },
        learning_rate_multiplier=found.learning_rate_multiplier,
        loss_scale=found.loss_scale,
    )


def _read_alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    """Returns the lengths whose records two runs read in the same order."""
    if any(one.get(name) != other.get(name) for name in _ORDER_SETTINGS):
        return set()
    return {
        length for length, _ in _records(one).items() & _records(other).items()
    }


def _records(fingerprint: Mapping[str, Any]) -> dict[str, str]:
    """Returns what identifies the records of a run, by their length."""
    found = fingerprint["records"]
    if isinstance(found, dict):
        return found
    return {str(fingerprint["max_seq_length"]): found}
