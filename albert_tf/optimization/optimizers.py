"""The arithmetic of Adam and LAMB: pure functions of float32 arrays.

gradient -> moments -> direction (with decay) -> trust ratio (LAMB only).
`optimizers` holds the state and calls these; no model is needed to test them.

Source: google-research/albert, `optimization.AdamWeightDecayOptimizer` and
`lamb_optimizer.LAMBOptimizer`; You et al. 2020, algorithm 2 (LAMB).

Which weights are not decayed, and in LAMB not adapted either.

Source: google-research/albert, `optimization.py`, which searches the whole
name for "LayerNorm", "layer_norm" or "bias". Here the role decides, which is
the last part of the name: the same weights on every released name, and no
weight is caught because a layer above it happens to be called so.

AdamW and LAMB as ALBERT uses them: Keras optimizers on any back end.

They own the slots and say which weights are excluded; the arithmetic is in
`update_rules`. `model.fit` drives them through `apply`. A loop that reduces
and clips by itself calls `update_step` for each weight instead, with
the rate of the step, and then adds 1 to `iterations`.

Source: google-research/albert, `optimization.py` and `lamb_optimizer.py`;
You et al. 2020 for the bias correction.

From settings to an optimizer.

Source: google-research/albert, `optimization.create_optimizer`.
"""

import math
from typing import Any

import keras
from keras import ops

from albert_tf.optimization import clipping, schedules
from albert_tf.optimization.optimizer_config import OptimizerConfig

Tensor = Any


def update_moments(
    gradient: Tensor, m: Tensor, v: Tensor, *, beta_1: float, beta_2: float
) -> tuple[Tensor, Tensor]:
    """Returns the running means of the gradient and of its square.

    Args:
        gradient: Gradient of this step, dense, of any shape.
        m: Mean of the gradient before this step, of the same shape.
        v: Mean of its square before this step, of the same shape.
        beta_1: Share of the old `m` that is kept.
        beta_2: Share of the old `v` that is kept.
    """
    m = beta_1 * m + (1.0 - beta_1) * gradient
    v = beta_2 * v + (1.0 - beta_2) * ops.square(gradient)
    return m, v


def correct_bias(
    m: Tensor, v: Tensor, step: Tensor, *, beta_1: float, beta_2: float
) -> tuple[Tensor, Tensor]:
    """Returns `m` and `v` without their pull towards their start at 0.

    Args:
        m: Mean of the gradient after this step.
        v: Mean of its square after this step.
        step: Number of this step, counted from 1, float32.
        beta_1: The rate `m` was made with.
        beta_2: The rate `v` was made with.
    """
    return m / _missing_share(beta_1, step), v / _missing_share(beta_2, step)


def _missing_share(beta: float, step: Tensor) -> Tensor:
    # 1 - beta**step, which written so would lose half its digits at step 1.
    return -ops.expm1(math.log(beta) * step)


def update_direction(
    m: Tensor, v: Tensor, weight: Tensor, *, epsilon: float, weight_decay: float
) -> Tensor:
    """Returns the direction of the step before any rate: u, to be subtracted.

    Args:
        m: Mean of the gradient after this step.
        v: Mean of its square after this step.
        weight: The weight before this step.
        epsilon: Added outside the root.
        weight_decay: Share of the weight that joins u; 0 for an excluded one.
    """
    # TF1: no bias correction, so the first updates are about 3 times as long.
    direction = m / (ops.sqrt(v) + epsilon)
    if not weight_decay:
        return direction
    return direction + weight_decay * weight


def trust_ratio(weight: Tensor, direction: Tensor) -> Tensor:
    """Returns LAMB's factor for one weight: |w| / |u|, or 1 if either is 0.

    The norms are over the whole array; the ratio is not capped.

    Args:
        weight: The weight before this step.
        direction: Its u, the decay included.

    Returns:
        A float32 scalar.
    """
    weight_norm = _norm(weight)
    direction_norm = _norm(direction)
    both = ops.logical_and(weight_norm > 0, direction_norm > 0)
    return ops.where(both, weight_norm / direction_norm, 1.0)


def _norm(array: Tensor) -> Tensor:
    return ops.sqrt(ops.sum(ops.square(array)))


EXCLUDED_ROLES = frozenset({"beta", "bias", "gamma", "output_bias"})


def is_excluded(path: str) -> bool:
    """Returns whether the weight of this path is left out of the decay.

    >>> is_excluded("bert/embeddings/LayerNorm/gamma")
    True
    >>> is_excluded("bert/pooler/dense/kernel")
    False

    Args:
        path: `path` of a Keras variable, or the name in a TF1 checkpoint.
    """
    return path.rsplit("/", maxsplit=1)[-1] in EXCLUDED_ROLES


@keras.saving.register_keras_serializable("albert_tf")
class AlbertAdamW(keras.optimizers.Optimizer):
    """Adam without bias correction, its weight decay inside the update.

    Biases and the gamma and beta of layer norms are not decayed.

    Args:
        learning_rate: A float, or a Keras learning-rate schedule.
        weight_decay: Share of a weight added to its update.
        beta_1: Decay of `m`, the running mean of the gradient.
        beta_2: Decay of `v`, the running mean of its square.
        epsilon: Added to the root of `v`.
        **kwargs: Of `keras.optimizers.Optimizer`, such as `name` and
            `global_clipnorm`.
    """

    def __init__(
        self,
        learning_rate: Any,
        *,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, weight_decay=weight_decay, **kwargs)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def build(self, variables: list[keras.Variable]) -> None:
        """Makes the slots `m` and `v` of each weight, zero at first.

        Under a `tf.distribute` strategy, call it inside the strategy's scope.

        Args:
            variables: The weights, float32; their `path` says their role.

        Raises:
            ValueError: A weight is not float32.
        """
        if self.built:
            return
        for variable in variables:
            _check_float32(variable)
        super().build(variables)
        self._m, self._v = self.add_optimizer_variables(
            variables, ["adam_m", "adam_v"]
        )
        self._excluded = tuple(
            is_excluded(variable.path) for variable in variables
        )

    def slots(self, variable: Any) -> tuple[keras.Variable, keras.Variable]:
        """Returns `m` and `v` of a weight this optimizer was built with.

        Args:
            variable: The Keras variable, or the TensorFlow variable of it
                that a strategy hands to its update function.
        """
        index = self._get_variable_index(variable)
        return self._m[index], self._v[index]

    def update_step(
        self, gradient: Tensor, variable: Any, learning_rate: Tensor
    ) -> None:
        """Applies one step to one weight and its slots, in float32.

        Args:
            gradient: Its gradient, reduced and clipped; dense or
                `tf.IndexedSlices`, since rows without a gradient decay too.
            variable: The weight, as `slots` takes it.
            learning_rate: Rate of this step: a number or a scalar tensor.
        """
        gradient = ops.cast(clipping.densify(gradient), "float32")
        weight = ops.convert_to_tensor(variable)
        m_slot, v_slot = self.slots(variable)
        m, v = update_moments(
            gradient,
            ops.convert_to_tensor(m_slot),
            ops.convert_to_tensor(v_slot),
            beta_1=self.beta_1,
            beta_2=self.beta_2,
        )
        self.assign(m_slot, m)
        self.assign(v_slot, v)
        excluded = self._excluded[self._get_variable_index(variable)]
        rate = ops.cast(learning_rate, "float32")
        self.assign_sub(variable, self._change(m, v, weight, rate, excluded))

    def _change(
        self, m: Tensor, v: Tensor, weight: Tensor, rate: Tensor, excluded: bool
    ) -> Tensor:
        return rate * self._direction(m, v, weight, excluded)

    def _direction(
        self, m: Tensor, v: Tensor, weight: Tensor, excluded: bool
    ) -> Tensor:
        return update_direction(
            m,
            v,
            weight,
            epsilon=self.epsilon,
            weight_decay=0.0 if excluded else self.weight_decay,
        )

    def _apply_weight_decay(self, variables: Any) -> None:
        # Keras would shrink the weights here, before the update; ours decays
        # them inside it.
        del variables

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that `from_config` needs."""
        return super().get_config() | {
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
        }


@keras.saving.register_keras_serializable("albert_tf")
class AlbertLamb(AlbertAdamW):
    """AdamW whose every update is as long as its weight, times the rate.

    Excluded weights (see `decay_filter`) are neither decayed nor adapted.

    Args:
        learning_rate: A float, or a Keras learning-rate schedule.
        corrected: Corrects the bias of `m` and `v`, as published. It counts
            steps by `iterations`.
        **kwargs: Of `AlbertAdamW`.
    """

    def __init__(
        self, learning_rate: Any, *, corrected: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(learning_rate, **kwargs)
        self.corrected = corrected

    def _change(
        self, m: Tensor, v: Tensor, weight: Tensor, rate: Tensor, excluded: bool
    ) -> Tensor:
        # Paper: You et al. 2020, algorithm 2. The reference has no correction.
        if self.corrected:
            m, v = correct_bias(
                m,
                v,
                ops.cast(self.iterations + 1, "float32"),
                beta_1=self.beta_1,
                beta_2=self.beta_2,
            )
        direction = self._direction(m, v, weight, excluded)
        # TF1: `exclude_from_layer_adaptation` is None, which makes it the
        # list of the weights without decay.
        if not excluded:
            # Scalars first, so that the array is multiplied only once.
            rate = rate * trust_ratio(weight, direction)
        return rate * direction

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that `from_config` needs."""
        return super().get_config() | {"corrected": self.corrected}


def _check_float32(variable: keras.Variable) -> None:
    if variable.dtype != "float32":
        raise ValueError(
            "Weights must be float32, because small updates are lost in a "
            "shorter type; use a `mixed_` policy, which computes in the short "
            f"type and keeps the weights. Received: {variable.path} of type "
            f"{variable.dtype}."
        )


def create_optimizer(config: OptimizerConfig) -> keras.optimizers.Optimizer:
    """Returns the optimizer that a config describes, not built yet.

    Under `model.fit` it does all that the config says: schedule, clipping by
    global norm, update. A loop that calls `update_step` takes the rate from
    `schedules.learning_rate` and clips with `clipping` itself.

    Args:
        config: The settings. Make the optimizer inside the scope of the
            `tf.distribute` strategy, if there is one.
    """
    if config.name == "lamb":
        optimizer_class = AlbertLamb
        options = {"corrected": config.corrected_lamb}
    else:
        optimizer_class = AlbertAdamW
        options = {}
    return optimizer_class(
        schedules.WarmUpAndDecay(config),
        weight_decay=config.weight_decay,
        beta_1=config.beta_1,
        beta_2=config.beta_2,
        epsilon=config.epsilon,
        global_clipnorm=config.clip_norm,
        **options,
    )
