"""AdamW and LAMB as ALBERT uses them, on any back end of Keras.

gradient -> moments -> direction (with decay) -> trust ratio (LAMB only)

`model.fit` updates the weights with an optimizer's `apply`. A training loop
reduces the gradients of all replicas, then calls `clip_by_global_norm`, then
`update_step` for each weight with the step's learning rate, and then adds 1 to
`iterations`.

Source: google-research/albert, `optimization.AdamWeightDecayOptimizer`,
`optimization.create_optimizer` and `lamb_optimizer.LAMBOptimizer`.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from albert_tf import registry
from albert_tf.modeling import Tensor
from albert_tf.modeling.operations import PLAIN, Operations
from albert_tf.optimization import schedules
from albert_tf.optimization.optimizer_config import OptimizerConfig

EXCLUDED_ROLES = frozenset({"beta", "bias", "gamma", "output_bias"})


def densify(gradient: Tensor) -> Tensor:
    """Returns a gradient as one dense tensor.

    It may be the `tf.IndexedSlices` that TensorFlow makes for a gathered table;
    slices of the same row are added.
    """
    # A PyTorch tensor has a method named `indices`, too.
    if not hasattr(gradient, "dense_shape"):
        return ops.convert_to_tensor(gradient)
    return ops.segment_sum(
        gradient.values, gradient.indices, num_segments=gradient.shape[0]
    )


def clip_by_global_norm(
    gradients: Sequence[Tensor], clip_norm: float = 1.0
) -> tuple[list[Tensor], Tensor]:
    """Scales all gradients by one factor to limit their global norm.

    Returns:
        The dense clipped gradients, and the float32 norm that they had before
        clipping. If the norm is not finite, every clipped gradient is NaN.
    """
    # Differs: on CPU and GPU the reference takes the slices of a gathered
    # table separately; this is the true norm, which it uses on TPU.
    dense = [densify(gradient) for gradient in gradients]
    squares = [ops.sum(ops.square(gradient)) for gradient in dense]
    norm = ops.sqrt(ops.sum(ops.stack(squares)))
    scale = clip_norm / ops.maximum(norm, clip_norm)
    # An infinite norm would give a scale of 0, which would hide the problem.
    scale = ops.where(ops.isfinite(norm), scale, math.nan)
    return [gradient * scale for gradient in dense], norm


def trust_ratio(
    weight: Tensor,
    direction: Tensor,
    sum_of_all: Callable[[Tensor], Tensor] = ops.sum,
) -> Tensor:
    """Returns LAMB's trust ratio of a weight: |w| / |u|, or 1 if either is 0.

    w is the weight before this step, u its direction including the decay; the
    ratio, a float32 scalar, has no upper limit.
    """
    weight_norm, direction_norm = (
        ops.sqrt(sum_of_all(ops.square(array))) for array in (weight, direction)
    )
    both = ops.logical_and(weight_norm > 0, direction_norm > 0)
    return ops.where(both, weight_norm / direction_norm, 1.0)


def is_excluded(path: str) -> bool:
    """Returns whether a weight is excluded from decay and adaptation.

    `path` names a Keras variable, or is the name in a TF1 checkpoint.

    >>> is_excluded("bert/embeddings/LayerNorm/gamma")
    True
    """
    # Differs: the reference searches the whole name for "LayerNorm",
    # "layer_norm" and "bias". For the released names the result is the same,
    # and here the name of an outer layer does not matter.
    return path.rsplit("/", maxsplit=1)[-1] in EXCLUDED_ROLES


@keras.saving.register_keras_serializable("albert_tf")
class AlbertAdamW(keras.optimizers.Optimizer):
    """Adam with weight decay in the update; by default, no bias correction.

    Biases and the gamma and beta of layer norms are not decayed.

    Args:
        learning_rate: A float, or a Keras learning-rate schedule.
        weight_decay: Share of a weight that is added to its update.
        beta_1: Decay of `m`, the running mean of the gradient.
        beta_2: Decay of `v`, the running mean of the squared gradient.
        epsilon: Added to the square root of `v`, after its bias correction.
        bias_correction: Whether `m` and `v` are corrected for their start at
            0 (Kingma and Ba 2015, algorithm 1).
        **kwargs: Arguments of `keras.optimizers.Optimizer`, such as `name`
            and `global_clipnorm`.
    """

    # How a weight is updated; a training step has its own.
    operations: Operations = PLAIN
    _has_trust_ratio = False
    _saved: tuple[str, ...] = ("beta_1", "beta_2", "epsilon", "bias_correction")

    def __init__(
        self,
        learning_rate: Any,
        *,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        bias_correction: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(learning_rate, weight_decay=weight_decay, **kwargs)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction

    def build(self, variables: list[keras.Variable]) -> None:
        """Creates the slots `m` and `v` of each weight, initially zero.

        Under a `tf.distribute` strategy, call it inside the strategy's scope.
        The `path` of a weight decides whether it is excluded from decay.
        """
        if self.built:
            return
        for variable in variables:
            if variable.dtype != "float32":
                raise ValueError(
                    "Weights must be float32, or small updates are lost. A "
                    "`mixed_` dtype policy keeps them so. Received: "
                    f"{variable.path} of type {variable.dtype}."
                )
        super().build(variables)
        self._m, self._v = self.add_optimizer_variables(
            variables, ["adam_m", "adam_v"]
        )
        self._rules = tuple(self._rule(v.path) for v in variables)
        # One function for all weights of a rule, so that weights of one shape
        # share a compiled function.
        self._updates = {
            rule: functools.partial(self._updated, rule=rule)
            for rule in {*self._rules}
        }

    def _rule(self, path: str) -> str:
        return "plain" if is_excluded(path) else "decayed"

    def slots(
        self, variable: keras.Variable
    ) -> tuple[keras.Variable, keras.Variable]:
        """Returns `m` and `v` of a weight that the optimizer was built with.

        It may be the TensorFlow variable, which a strategy passes to updates.
        """
        index = self._get_variable_index(variable)
        return self._m[index], self._v[index]

    def update_step(
        self, gradient: Tensor, variable: keras.Variable, learning_rate: Tensor
    ) -> None:
        """Updates one weight and its slots in float32.

        Args:
            gradient: Its gradient, reduced and clipped; dense or
                `tf.IndexedSlices`. Rows without a gradient decay, too.
            variable: The weight, as `slots` takes it.
            learning_rate: The rate of this step, a number or a scalar.
        """
        arrays = *self.slots(variable), variable
        rule = self._rules[self._get_variable_index(variable)]
        inputs = (
            ops.cast(densify(gradient), "float32"),
            *map(ops.convert_to_tensor, arrays),
            ops.cast(learning_rate, "float32"),
            ops.cast(self.iterations + 1, "float32"),
        )
        # Products of matrices are as fast alone as within a kernel.
        operations = PLAIN if rule == "matrix" else self.operations
        updated = operations.update(self._updates[rule], *inputs)
        for array, value in zip(arrays, updated, strict=True):
            self.assign(array, value)

    def _updated(
        self,
        gradient: Tensor,
        m: Tensor,
        v: Tensor,
        weight: Tensor,
        *numbers: Tensor,
        rule: str,
        sum_of_all: Callable[[Tensor], Tensor] = ops.sum,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns `m`, `v` and the weight after a step.

        The `numbers` are the learning rate and the number of this update.
        """
        rate, num_updates = numbers
        m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
        v = self.beta_2 * v + (1.0 - self.beta_2) * ops.square(gradient)
        mean, square = m, v
        # TF1: otherwise, the first updates are about 3 times as long.
        if self.bias_correction:
            # 1 - beta ** num_updates, exact near 0.
            mean = m / -ops.expm1(num_updates * math.log(self.beta_1))
            square = v / -ops.expm1(num_updates * math.log(self.beta_2))
        direction = mean / (ops.sqrt(square) + self.epsilon)
        if self.weight_decay and rule == "decayed":
            direction += self.weight_decay * weight
        # TF1: `exclude_from_layer_adaptation` is None there, which means the
        # weights without decay.
        if self._has_trust_ratio and rule == "decayed":
            # Scalars first, so that the array is multiplied only once; not in
            # place, because PyTorch would change the rate of all weights.
            rate = rate * trust_ratio(weight, direction, sum_of_all)
        return m, v, weight - rate * direction

    def _apply_weight_decay(self, variables: Sequence[keras.Variable]) -> None:
        """Does nothing: Keras would shrink the weights before the update."""

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that `from_config` needs."""
        saved: dict[str, Any] = super().get_config()
        return saved | {name: getattr(self, name) for name in self._saved}


@keras.saving.register_keras_serializable("albert_tf")
class AlbertLamb(AlbertAdamW):
    """AdamW with updates as long as their weight, times the learning rate.

    Excluded weights (see `is_excluded`) are neither decayed nor adapted. Its
    arguments are the same as of `AlbertAdamW`.
    """

    _has_trust_ratio = True


_CLASSES = {"adamw": AlbertAdamW, "lamb": AlbertLamb}


def create_optimizer(
    config: OptimizerConfig, precision: str = "float32"
) -> keras.optimizers.Optimizer:
    """Creates the optimizer that a config describes, not built yet.

    `precision` is the type of the products that Muon adds to a step.

    Under `model.fit` it does all that the config says: learning rate,
    clipping by global norm, update. A loop that calls `update_step` clips the
    gradients itself, and takes the rate from `schedules.learning_rate`.
    Under a `tf.distribute` strategy, call it inside the strategy's scope.
    """
    options: dict[str, Any] = {}
    if config.optimizer == "muon":
        options["product_dtype"] = precision
        if config.adamw_rate_ratio is not None:
            options["adamw_rate_ratio"] = config.adamw_rate_ratio
    optimizer_class = _CLASSES.get(config.optimizer) or registry.load(
        registry.OPTIMIZERS[config.optimizer]
    )
    return optimizer_class(
        schedules.WarmUpAndDecay(config),
        weight_decay=config.weight_decay,
        beta_1=config.beta_1,
        beta_2=config.beta_2,
        epsilon=config.epsilon,
        bias_correction=config.bias_correction,
        global_clipnorm=config.clip_norm,
        **options,
    )
