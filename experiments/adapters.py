"""Adapters of each pass beside shared layers, in equal time.

From random weights, and added to a trained model that goes on with its
training. The paper has no such model. See `albert_tf.modeling.adapters`.
"""

import dataclasses

from experiments.experiment import Claim, Experiment, Score, Variant
from experiments.scales import Scale

_ALL, _ATTENTION, _LONGER = "all", "attention", "all, longer"
_ADAPTERS, _ADDED = "all, with adapters", "all, longer, with adapters"
# The largest rank with at most a tenth more parameters at the small scale.
_RANK = 5
# A step takes 1.22 times as long, at the small scale in bfloat16 on a CPU.
_SHARE_OF_STEPS = 0.82


def variants(scale: Scale) -> list[Variant]:
    """Returns what is shared, with adapters and without."""
    shared = Variant.of(scale, _ALL)
    adapted = dataclasses.replace(
        Variant.of(scale, _ADAPTERS, adapter_rank=_RANK),
        share_of_steps=_SHARE_OF_STEPS,
    )
    return [
        shared,
        Variant.of(scale, _ATTENTION, parameter_sharing="attention"),
        adapted,
        dataclasses.replace(shared, label=_LONGER, starts_from=shared),
        dataclasses.replace(adapted, label=_ADDED, starts_from=shared),
    ]


def claims(scale: Scale) -> list[Claim]:
    """Returns what adapters are expected to do."""
    return [
        Claim(
            f"in equal time, adapters are better than {below}",
            Score(above),
            Score(below),
        )
        for above, below in (
            (_ADAPTERS, _ALL),
            (_ADAPTERS, _ATTENTION),
            (_ADDED, _LONGER),
        )
    ]


EXPERIMENT = Experiment(
    title="Adapters of each pass", variants=variants, claims=claims
)
