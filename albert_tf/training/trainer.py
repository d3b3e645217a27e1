"""A run in its folder: claimed, taken up where it stopped, trained.

What pretraining and fine-tuning have in common, between the task and the loop.

Floor: training.
"""

import contextlib
import dataclasses
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from albert_tf.checkpoints import load, run_checkpoints, train_state
from albert_tf.config import AlbertConfig
from albert_tf.optimization import optimizers
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.tasks import task as tasks
from albert_tf.training import (
    distribution,
    loop,
    metric_log,
    run_folder,
    step,
)
from albert_tf.training.run_config import TrainingConfig

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunPlan:
    """How a task is trained, and in which folder.

    Args:
        config: Shape of the model.
        training: How to train.
        optimizer: Update rule and rate.
        output_dir: Folder of the run.
        identity: Everything that decides the numbers of the run, as JSON
            values.
        init_checkpoint: Weights to start from; None for random ones.
        init_from_group0: Whether every group of layers takes the weights of
            the checkpoint's first group.
        allow_new_heads: Whether the checkpoint may lack heads of the model.
        learning_rate_multipliers: See `step.StepOptions`.
        flags_text: Written to `flags.txt`.
    """

    config: AlbertConfig
    training: TrainingConfig
    optimizer: OptimizerConfig
    output_dir: str
    identity: Mapping[str, Any]
    init_checkpoint: str | None = None
    init_from_group0: bool = False
    allow_new_heads: bool = False
    learning_rate_multipliers: Mapping[str, float] = dataclasses.field(
        default_factory=dict
    )
    flags_text: str = ""


class Trainer:
    """Trains a task as planned.

    Args:
        plan: How, and where.
        task: What is learnt; made in the scope of the strategy.
        strategy: The replicas.
    """

    def __init__(
        self,
        plan: RunPlan,
        *,
        task: tasks.Task,
        strategy: tf.distribute.Strategy,
    ) -> None:
        self._plan = plan
        self._task = task
        self._strategy = strategy
        self._is_chief = distribution.is_chief(strategy)
        self._step_options = step.StepOptions(
            num_micro_batches=plan.training.gradient_accumulation_steps,
            scale_loss=plan.training.precision == "float16",
            jit_compile=plan.training.jit_compile,
            seed=plan.training.random_seed,
            learning_rate_multipliers=plan.learning_rate_multipliers,
        )

    def train(self, hooks: loop.Hooks, *, num_records: int) -> bool:
        """Trains, or goes on training; returns whether the run is finished.

        Raises:
            ValueError: The folder is another run's, or another process
                trains in it; or a checkpoint does not fit the model.
            TrainingDiverged: See `loop.TrainingLoop`.
        """
        with self._folder_locked():
            return self._train(hooks, num_records)

    @contextlib.contextmanager
    def _folder_locked(self) -> Iterator[None]:
        if not self._is_chief:
            yield
            return
        run_folder.check(self._plan.output_dir, self._plan.identity)
        with run_folder.locked(self._plan.output_dir):
            yield

    def _train(self, hooks: loop.Hooks, num_records: int) -> bool:
        plan, config = self._plan, self._plan.training
        optimizer, checkpointer = self._optimizer_and_checkpointer()
        state = self._starting_state(checkpointer)
        if self._is_chief:
            # Only now, so that a checkpoint that cannot be loaded leaves no
            # folder behind that belongs to the run that failed.
            run_folder.claim(
                plan.output_dir, config=plan.config, identity=plan.identity
            )
            run_folder.write_flags(plan.output_dir, plan.flags_text)
        if state and state.step >= config.num_train_steps:
            return True
        _LOGGER.info(
            "Training on %d records; replicas: %d %s.",
            num_records,
            self._strategy.num_replicas_in_sync,
            distribution.device_type(self._strategy),
        )
        log = metric_log.MetricLog(
            plan.output_dir,
            last_step=state.step if state else None,
            is_writer=self._is_chief,
        )
        with contextlib.closing(log):
            return loop.TrainingLoop(
                config,
                train_step=step.TrainStep(
                    self._task,
                    optimizer,
                    plan.optimizer,
                    self._strategy,
                    self._step_options,
                ),
                checkpointer=checkpointer,
                log=log,
                hooks=hooks,
                steps_per_loop=config.steps_per_loop
                or distribution.AUTO_STEPS_PER_LOOP[
                    distribution.device_type(self._strategy)
                ],
                is_chief=self._is_chief,
            ).run(state)

    def _optimizer_and_checkpointer(
        self,
    ) -> tuple[keras.optimizers.Optimizer, train_state.Checkpointer]:
        trained = [
            variable
            for variable in self._task.model.trainable_variables
            if self._step_options.learning_rate_multiplier(variable)
        ]
        with self._strategy.scope():
            optimizer = optimizers.create_optimizer(self._plan.optimizer)
            optimizer.build(trained)
        return optimizer, train_state.Checkpointer(
            self._plan.output_dir,
            model=self._task.model,
            optimizer=optimizer,
            keep_max=self._plan.training.keep_checkpoint_max,
            trained=trained,
        )

    def _starting_state(
        self, checkpointer: train_state.Checkpointer
    ) -> loop.RunState | None:
        """Restores the newest checkpoint, or starts; None if it starts."""
        latest = checkpointer.latest()
        distribution.check_agreement(
            self._strategy, "checkpoint", run_checkpoints.step_of(latest)
        )
        if latest:
            state = loop.RunState.from_dict(checkpointer.restore(latest))
            _LOGGER.info("Going on from %s.", latest)
            return state
        if self._plan.init_checkpoint:
            load.load_checkpoint(
                self._task.model,
                self._plan.init_checkpoint,
                allow_new_heads=self._plan.allow_new_heads,
                from_group_0=self._plan.init_from_group0,
            )
        return None


def make_deterministic(config: TrainingConfig) -> None:
    """Makes operations give the same bits each time, if the config wants it."""
    if config.deterministic:
        keras.utils.set_random_seed(config.random_seed)
        tf.config.experimental.enable_op_determinism()
