"""Training in an output directory: optimizer, resume, loop.

What pretraining and fine-tuning share, in the order in which it happens.
"""

import contextlib
import functools
import logging
import time

import keras
import tensorflow as tf

from albert_tf.checkpoints import (
    load,
    run_checkpoints,
    train_state,
    variable_names,
)
from albert_tf.tasks.task import Task
from albert_tf.training import (
    continuation,
    devices,
    metric_log,
    run_folder,
    step,
)
from albert_tf.training.loop import (
    BatchesFrom,
    Evaluator,
    TrainingLoop,
)
from albert_tf.training.run_config import RunConfig
from albert_tf.training.run_folder import RunFolder
from albert_tf.training.run_state import RunState
from albert_tf.training.workers import Workers

_LOGGER = logging.getLogger(__name__)

_SHARED = "--output_dir must be a folder that all workers share."
# Another machine's new files may be seen later.
_SECONDS_TO_SEE = 30
_SECONDS_BETWEEN = 0.5


def train(
    config: RunConfig,
    *,
    folder: RunFolder,
    task: Task,
    workers: Workers,
    batches_from: BatchesFrom,
    evaluator: Evaluator | None = None,
    started: float | None = None,
) -> bool:
    """Trains a task, or resumes its training.

    The task is made in the scope of the strategy. `started` is when a time
    budget begins to count, by `time.monotonic`; None for now.

    Returns:
        Whether the training is finished; false if a signal stopped it.

    Raises:
        ValueError: The directory belongs to another run, another process
            trains in it, or a checkpoint does not fit the model.
        TrainingDiverged: See `loop.TrainingLoop`.
    """
    with contextlib.ExitStack() as stack:
        workers.run_in_chief(
            functools.partial(stack.enter_context, folder.locked())
        )
        # 1. Optimizer.
        train_step = step.TrainStep(config, task, workers.strategy)

        # 2. Resume.
        checkpointer = train_state.Checkpointer(
            config.output_dir,
            model=task.model,
            optimizer=train_step.optimizer,
            keep_max=config.keep_checkpoint_max,
            trained=train_step.variables,
            metadata=folder.metadata,
        )
        stack.callback(checkpointer.close)
        latest = checkpointer.latest()
        workers.check_same(
            {"newest checkpoint": run_checkpoints.step_of(latest)},
            _SHARED,
        )
        state = workers.run_in_all(
            functools.partial(
                _restore, config, folder, task.model, checkpointer, latest
            ),
        )
        workers.check_same_weights(task.model, step=state.step)

        # 3. Claim the directory: only now, so that a checkpoint that cannot be
        # loaded does not leave a directory of a run that never started.
        _claim(config, folder, workers)
        if latest and config.num_train_steps <= config.progress.step(
            state.step, state.seconds
        ):
            return True

        # 4. Loop.
        _LOGGER.info(
            "Training on %s replica(s) of type %s.",
            workers.strategy.num_replicas_in_sync,
            devices.device_type(workers.strategy),
        )
        log = metric_log.MetricLog(
            config.output_dir,
            last_step=state.step if latest else None,
            is_writer=workers.is_chief,
        )
        with contextlib.closing(log):
            return TrainingLoop(
                config,
                train_step=train_step,
                workers=workers,
                checkpointer=checkpointer,
                log=log,
                batches_from=batches_from,
                evaluator=evaluator,
            ).run(state, is_new=latest is None, started=started)


def _claim(config: RunConfig, folder: RunFolder, workers: Workers) -> None:
    """Has the chief claim the directory; the others must see that it did."""
    workers.run_in_chief(functools.partial(folder.claim, config))
    workers.check_same({"run.json": _is_claimed(folder.path)}, _SHARED)


def _is_claimed(path: str) -> bool:
    """Returns whether the directory is that of a run; waits for it a little.

    The chief has just made it so.
    """
    deadline = time.monotonic() + _SECONDS_TO_SEE
    while not run_folder.read_fingerprint(path):
        if time.monotonic() > deadline:
            return False
        time.sleep(_SECONDS_BETWEEN)
    return True


def _restore(
    config: RunConfig,
    folder: RunFolder,
    model: keras.Model,
    checkpointer: train_state.Checkpointer,
    latest: str | None,
) -> RunState:
    """Initializes the weights; returns the state to train from.

    The weights come from the first of these that exists:
    1. `latest`, the newest checkpoint in `output_dir`, with optimizer slots,
       step, data position and log window;
    2. `continue_from`: with optimizer slots, step and data position;
    3. `init_checkpoint`: weights only;
    4. the random initialization of the model.
    """
    if latest:
        state = RunState.from_dict(checkpointer.restore(latest))
        _LOGGER.info("Resuming from %s.", latest)
        return state
    if config.continue_from:
        return continuation.restore(config, checkpointer, folder.fingerprint)
    if config.init_checkpoint:
        load.load_checkpoint(
            model,
            config.init_checkpoint,
            allow_new_heads=config.allow_new_heads,
            from_group_0=config.init_from_group0,
        )
        return RunState()
    names = variable_names.variables_by_tf1_name(model.trainable_variables)
    parts = dict.fromkeys("/".join(name.split("/")[:2]) for name in names)
    _LOGGER.info(
        "Without --init_checkpoint, all weights are randomly initialised: %s.",
        ", ".join(parts),
    )
    return RunState()


def make_deterministic(config: RunConfig) -> None:
    """Makes operations bit-reproducible if `config.deterministic`."""
    if config.deterministic:
        keras.utils.set_random_seed(config.random_seed)
        tf.config.experimental.enable_op_determinism()
