"""One update: gradients of the global batch, reduced, clipped, applied once.

Data flow: batch of each replica -> micro-batches -> sum of gradients -> sum
over replicas -> clip -> optimizer.

Source: Micikevicius et al. 2018, "Mixed precision training", section 3.2.

# Differs: google-research/albert divides the loss by the number of targets on
# each TPU core, clips there, and sums. Here the loss is divided by the number
# of targets in the global batch and the reduced gradient is clipped, so that
# one step on R replicas equals one step on one replica with the same examples.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from albert_tf import registry
from albert_tf.devices import strategies
from albert_tf.optimization import optimizers, schedules
from albert_tf.tasks.task import Batch, Task, Totals
from albert_tf.training.run_config import RunConfig

# By path of the variable; variables that the loss does not reach are left out.
Gradients = dict[str, tf.Tensor]

INITIAL_LOSS_SCALE = 2.0**15
# At this scale, a gradient that is not finite counts as divergence.
SMALLEST_LOSS_SCALE = 1.0
LARGEST_LOSS_SCALE = 2.0**24
GROWTH_STEPS = 2000


class TrainStep:
    """Runs updates in the graph, several per call.

    `multipliers` of the learning rate are by path of the variable; a variable
    with the multiplier 0 is frozen, and is not among the `variables`.
    """

    def __init__(
        self,
        config: RunConfig,
        task: Task,
        strategy: tf.distribute.Strategy,
        multipliers: Mapping[str, float] | None = None,
    ) -> None:
        self._config = config
        self.task = task
        self.strategy = strategy
        trainable = task.model.trainable_variables
        self._multipliers = multipliers or {v.path: 1.0 for v in trainable}
        # The gradient of a frozen variable is not even computed.
        self.variables = [v for v in trainable if self._multipliers[v.path]]
        with strategy.scope():
            self.optimizer = optimizers.create_optimizer(
                config, config.precision
            )
            self.optimizer.build(self.variables)
        # float16 gradients underflow unless the loss is scaled up.
        self._scales_loss = config.precision == "float16"
        self._gradients: Callable[..., Any] = self._micro_gradients
        if config.gradient_accumulation_steps > 1:
            self._gradients = self._accumulated_gradients
        device = strategies.device_type(strategy)
        compile_function = functools.partial(
            tf.function, jit_compile=True, autograph=False
        )
        # A TPU always compiles the whole update with XLA.
        if config.jit_compile and device != "TPU":
            self._gradients = compile_function(self._gradients)
        # XLA is slower at matrix products but faster between them.
        compiles_parts = device == "CPU" and not config.jit_compile
        self._fused = registry.load(registry.COMPUTATION["kernels"])
        self._operations = self._fused.Kernels(
            compile_function if compiles_parts else None,
            dtype=config.precision,
            recompute=config.recompute,
        )
        self.optimizer.operations = self._operations
        # AutoGraph would take seconds, and there is nothing to convert.
        self.run = tf.function(self._run, autograph=False)

    @property
    def result_names(self) -> tuple[str, ...]:
        """Names of the columns that `run` returns.

        They are metric totals over the global batch, learning rate, loss scale
        (1 if the loss is not scaled) and gradient norm before clipping.
        """
        others = ("learning_rate", "loss_scale", "gradient_norm")
        return *self.task.total_names, *others

    def _run(
        self,
        iterator: Iterator[Batch],
        first_step: tf.Tensor,
        num_steps: tf.Tensor,
        loss_scale: tf.Tensor,
        run_seed: tf.Tensor,
        depth: int | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs `num_steps` updates, int32 `[]`, of `depth` layers or of all.

        `first_step` and `run_seed` are int64 `[]`; `loss_scale` is float32
        `[2]`, see `updated_loss_scale`. Returns the columns `result_names`,
        float32 `[num_steps, K]`, and the new `loss_scale`.
        """

        def update(
            index: tf.Tensor, results: tf.TensorArray, loss_scale: tf.Tensor
        ) -> tuple[tf.Tensor, tf.TensorArray, tf.Tensor]:
            step = first_step + tf.cast(index, tf.int64)
            rate = schedules.learning_rate(step, self._config)
            scale = loss_scale[0] if self._scales_loss else 1.0
            rows = self.strategy.run(
                # A TPU's strategy makes tensors of all `args`.
                functools.partial(self._replica_step, depth=depth),
                args=(next(iterator), step, run_seed, rate, scale),
            )
            row = self.strategy.experimental_local_results(rows)[0]
            results = results.write(index, row)
            if self._scales_loss:
                loss_scale = updated_loss_scale(
                    loss_scale, tf.math.is_finite(row[-1])
                )
            return index + 1, results, loss_scale

        _, results, loss_scale = tf.while_loop(
            lambda index, *_: index < num_steps,
            update,
            (0, tf.TensorArray(tf.float32, num_steps), loss_scale),
        )
        return results.stack(), loss_scale

    def _replica_step(
        self,
        batch: Batch,
        step: tf.Tensor,
        run_seed: tf.Tensor,
        rate: tf.Tensor,
        scale: tf.Tensor,
        *,
        depth: int | None,
    ) -> tf.Tensor:
        """Runs one update in a replica; returns its row of `_run`, `[K]`."""
        context = tf.distribute.get_replica_context()
        denominators = self.task.loss_denominators(batch)
        reduced = _all_reduce(context, [*denominators.values()])
        loss_denominators = dict(zip(denominators, reduced, strict=True))
        seed = _step_seed(run_seed, step, context)
        gradients, totals = self._gradients(
            batch, loss_denominators, seed, scale, depth
        )
        *dense, totals = _all_reduce(context, [*gradients.values(), totals])
        clipped, norm = optimizers.clip_by_global_norm(
            [g / scale for g in dense] if self._scales_loss else dense,
            self._config.clip_norm,
        )
        gradients = dict(zip(gradients, clipped, strict=True))
        context.merge_call(self._apply, args=(gradients, step, rate, norm))
        return tf.concat([totals, [rate, scale, norm]], 0)

    def _accumulated_gradients(
        self, batch: Batch, denominators: Totals, seed: tf.Tensor, *others: Any
    ) -> tuple[Gradients, tf.Tensor]:
        """Returns gradients and totals, added up over micro-batches."""
        num_micro_batches = self._config.gradient_accumulation_steps
        micro_batches = {
            name: _split(value, num_micro_batches)
            for name, value in batch.items()
        }
        # Filled when the body of the loop is traced.
        reached: set[str] = set()

        def add(
            index: tf.Tensor, gradients: Gradients, totals: tf.Tensor
        ) -> tuple[tf.Tensor, Gradients, tf.Tensor]:
            micro_batch = {n: rows[index] for n, rows in micro_batches.items()}
            own_seed = seed + tf.stack([index, 0])
            more, more_totals = self._micro_gradients(
                micro_batch, denominators, own_seed, *others
            )
            reached.update(more)
            gradients = {
                path: _add(total, more[path]) if path in reached else total
                for path, total in gradients.items()
            }
            return index + 1, gradients, totals + more_totals

        zeros = {v.path: tf.zeros(v.shape) for v in self.variables}
        _, gradients, totals = tf.while_loop(
            lambda index, *_: index < num_micro_batches,
            add,
            (0, zeros, tf.zeros([len(self.task.total_names)])),
            # Otherwise the next micro-batch begins before this one ends, and
            # no memory is saved.
            parallel_iterations=1,
        )
        return {p: g for p, g in gradients.items() if p in reached}, totals

    def _micro_gradients(
        self,
        batch: Batch,
        loss_denominators: Totals,
        seed: tf.Tensor,
        scale: tf.Tensor,
        depth: int | None,
    ) -> tuple[Gradients, tf.Tensor]:
        """Returns the gradients and metric totals of a batch."""
        variables = [v.value for v in self.variables]
        model = self.task.model
        with self._fused.computing_with(model, self._operations):
            with tf.GradientTape() as tape:
                loss, totals = self.task.loss(
                    batch,
                    loss_denominators,
                    seed=seed,
                    **self._loss_options(batch, depth),
                )
                if self._scales_loss:
                    loss *= scale
            gradients = tape.gradient(loss, variables)
        # Dense before they are reduced: XLA has no kernel that reduces
        # slices over replicas, and the norms need the true gradient.
        dense = {
            variable.path: tf.convert_to_tensor(gradient)
            for variable, gradient in zip(
                self.variables, gradients, strict=True
            )
            if gradient is not None
        }
        return dense, tf.stack([totals[n] for n in self.task.total_names])

    def _loss_options(self, batch: Batch, depth: int | None) -> dict[str, Any]:
        """Returns the options of `Task.loss` for a batch."""
        options: dict[str, Any] = {"depth": depth}
        model = self._config.albert_config
        if self._config.random_depth and (depth or model.num_hidden_layers) > 1:
            options["compute_outputs"] = registry.load(
                registry.COMPUTATION["random_depth"]
            )
        # Within windows, no sequence shares its row.
        if "packed_at" in batch and not model.attention_window:
            options["encode"] = registry.load(registry.COMPUTATION["pack"])
        return options

    def _apply(
        self,
        strategy: tf.distribute.Strategy,
        gradients: Gradients,
        step: tf.Tensor,
        rate: tf.Tensor,
        norm: tf.Tensor,
    ) -> None:
        strategy.extended.update(
            self.optimizer.iterations.value, _assign, args=(step,)
        )
        before: list[tf.Operation] = []
        for variable in self.variables:
            # TF1: a variable without a gradient is left as it is. Weight
            # decay alone would shrink it, and LAMB would scale that up.
            if variable.path not in gradients:
                continue
            multiplier = self._multipliers[variable.path]
            scaled_rate = rate if multiplier == 1 else rate * multiplier
            # One after the other, because an update takes several times the
            # memory of its variable.
            with tf.control_dependencies(before):
                updated = strategy.extended.update(
                    variable.value,
                    self._update,
                    args=(gradients[variable.path], scaled_rate, norm),
                )
            before = [updated]

    def _update(
        self,
        variable: tf.Variable,
        gradient: tf.Tensor,
        rate: tf.Tensor,
        norm: tf.Tensor,
    ) -> tf.Tensor:
        """Updates a variable and its slots; returns its new value."""

        def update() -> None:
            self.optimizer.update_step(gradient, variable, rate)

        if self._scales_loss:
            tf.cond(tf.math.is_finite(norm), update, lambda: None)
        else:
            update()
        return variable.read_value()


def _step_seed(
    run_seed: tf.Tensor, step: tf.Tensor, context: tf.distribute.ReplicaContext
) -> tf.Tensor:
    """Returns int32 `[2]`, different for each step and replica."""
    replica = tf.cast(context.replica_id_in_sync_group, tf.int64)
    stream = step * context.num_replicas_in_sync + replica
    key = tf.stack([run_seed, stream])
    return tf.random.stateless_uniform(
        [2], key, minval=None, maxval=None, dtype=tf.int32
    )


def _add(total: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    """Adds a gradient to the total of a loop, without a graph rewrite.

    A gradient can be a sum itself. TensorFlow may rewrite nested sums to use a
    temporary variable, which fails in a loop. It does not rewrite across a
    check of the shape.
    """
    return total + tf.ensure_shape(gradient, total.shape)


def _split(value: tf.Tensor, num_micro_batches: int) -> tf.Tensor:
    """Divides the rows of a batch: `[b, ...]` to `[n, b / n, ...]`."""
    num_rows = value.shape[0] // num_micro_batches
    shape = [num_micro_batches, num_rows, *value.shape[1:]]
    if None not in shape:
        return tf.reshape(value, shape)
    # The length of a batch may differ from step to step.
    split = tf.reshape(value, tf.concat([shape[:2], tf.shape(value)[1:]], 0))
    return tf.ensure_shape(split, shape)


def _assign(variable: tf.Variable, value: tf.Tensor) -> None:
    variable.assign(tf.cast(value, variable.dtype))


def _all_reduce(
    context: tf.distribute.ReplicaContext, tensors: list[tf.Tensor]
) -> list[tf.Tensor]:
    if context.num_replicas_in_sync == 1:
        return tensors
    return list(context.all_reduce(tf.distribute.ReduceOp.SUM, tensors))


def updated_loss_scale(state: tf.Tensor, is_finite: tf.Tensor) -> tf.Tensor:
    """Doubles the scale after many finite steps; halves it after an overflow.

    The `state`, float32 `[2]`, is the scale and the number of steps since it
    changed; `is_finite`, bool `[]`, is whether the gradients were finite.
    """
    scale, steps = state[0], state[1] + 1
    grown = tf.stack([tf.minimum(2 * scale, LARGEST_LOSS_SCALE), 0.0])
    if_finite = tf.where(steps >= GROWTH_STEPS, grown, [scale, steps])
    if_not = tf.stack([tf.maximum(scale / 2, SMALLEST_LOSS_SCALE), 0.0])
    return tf.where(is_finite, if_finite, if_not)
