"""One update: gradients of the global batch, reduced, clipped, applied once.

Data flow: batch of each replica -> micro-batches -> sum of gradients -> sum
over replicas -> clip -> optimizer.

Floor: training.

# Differs: google-research/albert normalises by the targets of each TPU core,
# clips there, and sums. Here the loss is normalised by the targets of the
# global batch and the reduced gradient is clipped, so that one step on R
# replicas equals one step on one replica with the same examples.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import keras
import tensorflow as tf

from albert_tf.optimization import clipping, schedules
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.tasks import task as tasks
from albert_tf.training import divergence

Tensors = list[tf.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepOptions:
    """How a step is computed.

    Args:
        num_micro_batches: Parts of a replica's batch, computed in turn.
        scale_loss: Whether to scale the loss (for float16), and to skip the
            update of a step whose gradients overflow.
        jit_compile: Whether XLA compiles the forward and backward pass.
        seed: From which each step's dropout is drawn.
        learning_rate_multipliers: What the learning rate of a weight is multiplied by, by
            its path; 1 for those that are not named. A weight with 0 keeps
            its value, and no gradient of it is computed.
    """

    num_micro_batches: int = 1
    scale_loss: bool = False
    jit_compile: bool = False
    seed: int = 0
    learning_rate_multipliers: Mapping[str, float] = dataclasses.field(
        default_factory=dict
    )

    def learning_rate_multiplier(self, variable: keras.Variable) -> float:
        """Returns what the learning rate of a weight is multiplied by."""
        return self.learning_rate_multipliers.get(variable.path, 1.0)


class TrainStep:
    """Runs updates in the graph, several in one call.

    Args:
        task: What is learnt.
        optimizer: Built on the task's trainable variables, without those
            whose `learning_rate_multiplier` is 0.
        settings: Rate law and clip norm.
        strategy: The replicas.
        options: How to compute.
    """

    def __init__(
        self,
        task: tasks.Task,
        optimizer: keras.optimizers.Optimizer,
        settings: OptimizerConfig,
        strategy: tf.distribute.Strategy,
        options: StepOptions,
    ) -> None:
        self._task = task
        self._variables = [
            variable
            for variable in task.model.trainable_variables
            if options.learning_rate_multiplier(variable)
        ]
        self._optimizer = optimizer
        self._settings = settings
        self._strategy = strategy
        self._options = options
        self._gradients = self._local_gradients
        if options.jit_compile:
            self._gradients = tf.function(
                self._local_gradients, jit_compile=True
            )
        self.run = tf.function(self._run)

    @property
    def result_names(self) -> tuple[str, ...]:
        """What the columns of the results of `run` are."""
        return (
            *self._task.total_names,
            "learning_rate",
            "loss_scale",
            "gradient_norm",
        )

    def _run(
        self,
        iterator: Iterator[tasks.Batch],
        first_step: tf.Tensor,
        num_steps: tf.Tensor,
        learning_rate_multiplier: tf.Tensor,
        loss_scale: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs `num_steps` updates.

        Args:
            iterator: Gives every replica its batch.
            first_step: int64 `[]`, updates done before.
            num_steps: int32 `[]`.
            learning_rate_multiplier: float32 `[]`, multiplies the learning rate.
            loss_scale: float32 `[2]`, see `loss_scaling`.

        Returns:
            Float32 `[num_steps, K]`, columns as `result_names`: the task's
            sums over the global batch, the learning rate, the scale of the
            loss (1 if it is not scaled) and the norm of the gradient before
            clipping; and the new `loss_scale`.
        """
        results = tf.TensorArray(tf.float32, num_steps)
        for index in tf.range(num_steps):
            step = first_step + tf.cast(index, tf.int64)
            rate = learning_rate_multiplier * schedules.learning_rate(
                step, self._settings
            )
            scale = loss_scale[0] if self._options.scale_loss else 1.0
            rows = self._strategy.run(
                self._replica_step,
                args=(next(iterator), step, rate, scale),
            )
            row = self._strategy.experimental_local_results(rows)[0]
            results = results.write(index, row)
            if self._options.scale_loss:
                loss_scale = divergence.updated(
                    loss_scale, tf.math.is_finite(row[-1])
                )
        return results.stack(), loss_scale

    def _replica_step(
        self,
        batch: tasks.Batch,
        step: tf.Tensor,
        rate: tf.Tensor,
        scale: tf.Tensor,
    ) -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        loss_denominators = _add_up(
            context, self._task.loss_denominators(batch)
        )
        seed = self._step_seed(step, context)
        gradients, sums = self._gradients(batch, loss_denominators, seed, scale)
        *gradients, sums = _all_reduce(context, [*gradients, sums])
        gradients, norm = clipping.clip_by_global_norm(
            [g / scale for g in gradients]
            if self._options.scale_loss
            else gradients,
            self._settings.clip_norm,
        )
        context.merge_call(self._apply, args=(gradients, step, rate, norm))
        return tf.concat([sums, [rate, scale, norm]], 0)

    def _step_seed(
        self, step: tf.Tensor, context: tf.distribute.ReplicaContext
    ) -> tf.Tensor:
        """Returns int32 `[2]`, another for each step and replica."""
        replica = tf.cast(context.replica_id_in_sync_group, tf.int64)
        number = step * context.num_replicas_in_sync + replica
        key = tf.stack([tf.constant(self._options.seed, tf.int64), number])
        return tf.random.stateless_uniform(
            [2], key, minval=None, maxval=None, dtype=tf.int32
        )

    def _local_gradients(
        self,
        batch: tasks.Batch,
        loss_denominators: tasks.Totals,
        seed: tf.Tensor,
        scale: tf.Tensor,
    ) -> tuple[Tensors, tf.Tensor]:
        """Returns the summed gradients of a replica's batch, and its sums."""
        parts = self._options.num_micro_batches
        if parts == 1:
            return self._micro_gradients(batch, loss_denominators, seed, scale)
        micro = {name: _split(value, parts) for name, value in batch.items()}
        gradients = [tf.zeros(v.shape) for v in self._variables]
        sums = tf.zeros([len(self._task.total_names)])
        for part in tf.range(parts):
            more, more_sums = self._micro_gradients(
                {name: value[part] for name, value in micro.items()},
                loss_denominators,
                seed + tf.stack([part, 0]),
                scale,
            )
            gradients = [g + m for g, m in zip(gradients, more, strict=True)]
            sums += more_sums
        return gradients, sums

    def _micro_gradients(
        self,
        batch: tasks.Batch,
        loss_denominators: tasks.Totals,
        seed: tf.Tensor,
        scale: tf.Tensor,
    ) -> tuple[Tensors, tf.Tensor]:
        variables = [v.value for v in self._variables]
        with tf.GradientTape() as tape:
            loss, sums = self._task.loss(batch, loss_denominators, seed=seed)
            if self._options.scale_loss:
                loss *= scale
        gradients = tape.gradient(
            loss,
            variables,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        # Dense before they are reduced: XLA has no kernel that reduces
        # slices over replicas, and the norms need the true gradient.
        dense = [tf.convert_to_tensor(g) for g in gradients]
        return dense, tf.stack([sums[n] for n in self._task.total_names])

    def _apply(
        self,
        strategy: tf.distribute.Strategy,
        gradients: Tensors,
        step: tf.Tensor,
        rate: tf.Tensor,
        norm: tf.Tensor,
    ) -> None:
        strategy.extended.update(
            self._optimizer.iterations.value, _assign, args=(step,)
        )
        for variable, gradient in zip(self._variables, gradients, strict=True):
            factor = self._options.learning_rate_multiplier(variable)
            own_rate = rate if factor == 1 else rate * factor
            strategy.extended.update(
                variable.value, self._update, args=(gradient, own_rate, norm)
            )

    def _update(
        self,
        variable: tf.Variable,
        gradient: tf.Tensor,
        rate: tf.Tensor,
        norm: tf.Tensor,
    ) -> None:
        def update() -> None:
            self._optimizer.update_step(gradient, variable, rate)

        if self._options.scale_loss:
            tf.cond(tf.math.is_finite(norm), update, lambda: None)
        else:
            update()


def _split(value: tf.Tensor, parts: int) -> tf.Tensor:
    """Divides the rows of a batch: `[b, ...]` to `[parts, b / parts, ...]`."""
    shape = [parts, value.shape[0] // parts, *value.shape[1:]]
    if None not in shape:
        return tf.reshape(value, shape)
    # The length of a batch may differ from step to step.
    split = tf.reshape(value, tf.concat([shape[:2], tf.shape(value)[1:]], 0))
    return tf.ensure_shape(split, shape)


def _assign(variable: tf.Variable, value: tf.Tensor) -> None:
    variable.assign(tf.cast(value, variable.dtype))


def _all_reduce(
    context: tf.distribute.ReplicaContext, tensors: Sequence[tf.Tensor]
) -> Tensors:
    if context.num_replicas_in_sync == 1:
        return list(tensors)
    return context.all_reduce(tf.distribute.ReduceOp.SUM, list(tensors))


def _add_up(
    context: tf.distribute.ReplicaContext, sums: tasks.Totals
) -> tasks.Totals:
    values = _all_reduce(context, list(sums.values()))
    return dict(zip(sums, values, strict=True))
