"""The arithmetic of Adam and LAMB: pure functions of float32 arrays.

gradient -> moments -> direction (with decay) -> trust ratio (LAMB only).
`optimizers` holds the state and calls these; no model is needed to test them.

Source: google-research/albert, `optimization.AdamWeightDecayOptimizer` and
`lamb_optimizer.LAMBOptimizer`; You et al. 2020, algorithm 2 (LAMB).
"""

import math
from typing import Any

from keras import ops

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
