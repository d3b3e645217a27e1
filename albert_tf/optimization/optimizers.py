"""AdamW and LAMB as ALBERT uses them: Keras optimizers on any back end.

They own the slots and say which weights are excluded; the arithmetic is in
`update_rules`. `model.fit` drives them through `apply`. A loop that reduces
and clips by itself calls `update_step` for each weight instead, with
the rate of the step, and then adds 1 to `iterations`.

Source: google-research/albert, `optimization.py` and `lamb_optimizer.py`;
You et al. 2020 for the bias correction.
"""

from typing import Any

import keras
from keras import ops

from albert_tf.optimization import clipping, decay_filter, update_rules

Tensor = Any


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
            decay_filter.is_excluded(variable.path) for variable in variables
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
        m, v = update_rules.update_moments(
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
        return update_rules.update_direction(
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
            m, v = update_rules.correct_bias(
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
            rate = rate * update_rules.trust_ratio(weight, direction)
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
