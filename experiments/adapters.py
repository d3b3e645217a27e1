"""Adapters of each pass beside shared layers, in equal time.

The paper has no such model. See `albert_tf.modeling.adapters`.
"""

import dataclasses

from experiments.experiment import Claim, Experiment, Score, Variant
from experiments.scales import Scale

ALL, ATTENTION, ADAPTERS = "all", "attention", "all, with adapters"
# The largest rank with at most a tenth more parameters at the small scale.
_RANK = 5
# A step takes 1.22 times as long, at the small scale in bfloat16 on a CPU.
_SHARE_OF_STEPS = 0.82


def variants(scale: Scale) -> list[Variant]:
    """Returns all shared, attention alone shared, all shared with adapters."""
    return [
        Variant.of(scale, ALL),
        Variant.of(scale, ATTENTION, parameter_sharing="attention"),
        dataclasses.replace(
            Variant.of(scale, ADAPTERS, adapter_rank=_RANK),
            share_of_steps=_SHARE_OF_STEPS,
        ),
    ]


def claims(scale: Scale) -> list[Claim]:
    """Returns what adapters are expected to do."""
    return [
        Claim(
            f"adapters are better than sharing {label}, in equal time",
            Score(ADAPTERS),
            Score(label),
        )
        for label in (ALL, ATTENTION)
    ]


EXPERIMENT = Experiment(
    title="Adapters of each pass",
    variants=variants,
    claims=claims,
)
