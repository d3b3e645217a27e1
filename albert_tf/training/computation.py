"""The compiled functions of a fine-tuning, which its runs share.

Compiling takes as long as a hundred updates of a small model.
"""

from collections.abc import Callable

from keras import ops

from albert_tf import registry
from albert_tf.devices.strategies import Workers
from albert_tf.inference.record_outputs import OutputComputer
from albert_tf.tasks.finetuning import MeanLossTask
from albert_tf.tasks.task import Batch, MakeTask, Totals
from albert_tf.training import record_sets
from albert_tf.training.run_config import FinetuningConfig
from albert_tf.training.step import TrainStep


class Computation:
    """A task with its outputs and updates, for one run after another.

    The runs are seeds or folds: all settings of `config` but seed, folder and
    uses are the same.
    """

    def __init__(
        self, config: FinetuningConfig, make_task: MakeTask, workers: Workers
    ) -> None:
        self._config = config
        self._make_task = make_task
        self._workers = workers
        self.padding = record_sets.padding_for(config, workers.strategy)
        self._is_new = True
        self._train_step: TrainStep | None = None
        self.task = self._new_task(config.random_seed)
        # Of all layers, for evaluations during a training.
        self.outputs = self.outputs_by(self.task.outputs)
        self.final_outputs = self.outputs
        if self.task.final_outputs != self.task.outputs:
            self.final_outputs = self.outputs_by(self.task.final_outputs)

    def begin(self, seed: int) -> None:
        """Gives the model random weights, as a new model of this seed has."""
        if not self._is_new:
            fresh = self._new_task(seed).model.variables
            for own, other in zip(
                self.task.model.variables, fresh, strict=True
            ):
                own.assign(other)
        self._is_new = False

    def outputs_by(self, compute: Callable[[Batch], Totals]) -> OutputComputer:
        """Returns a computer of outputs by a method of the task."""
        return OutputComputer(
            self.task, self.padding, compute=compute, workers=self._workers
        )

    def train_step(self) -> TrainStep:
        """Returns the update, as before the first one."""
        config = self._config
        if self._train_step:
            optimizer = self._train_step.optimizer
            optimizer.iterations.assign(0)
            for variable in self._train_step.variables:
                for slot in optimizer.slots(variable):
                    slot.assign(ops.zeros_like(slot))
            return self._train_step
        multipliers = None
        if config.layerwise_lr_decay < 1 or config.freeze_embeddings:
            find_multipliers = registry.load(registry.RATES["layerwise"])
            multipliers = find_multipliers(
                [v.path for v in self.task.model.trainable_variables],
                decay=config.layerwise_lr_decay,
                freeze_embeddings=config.freeze_embeddings,
            )
        self._train_step = TrainStep(
            config, self.task, self._workers.strategy, multipliers
        )
        return self._train_step

    def _new_task(self, seed: int) -> MeanLossTask:
        with self._workers.strategy.scope():
            return self._make_task(
                self._config.albert_config,
                seed=seed,
                dtype=self._config.dtype_policy,
            )
