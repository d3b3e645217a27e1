"""What layers share: all, attention, the feed-forward network, or nothing."""

import dataclasses

from albert_tf.config import SHARING_STRATEGIES
from experiments.experiment import Experiment, Variant
from experiments.scales import Scale


def variants(scale: Scale) -> list[Variant]:
    """Returns the four strategies, then layers in two groups."""
    found = [
        Variant(
            name=strategy,
            config=dataclasses.replace(
                scale.config, parameter_sharing=strategy
            ),
        )
        for strategy in SHARING_STRATEGIES
    ]
    groups = dataclasses.replace(scale.config, num_hidden_groups=2)
    return [*found, Variant(name="two_groups", config=groups)]


EXPERIMENT = Experiment(
    title="Parameter sharing",
    claim=(
        "Sharing all parameters costs 1.5 points on average at E=128, sharing "
        "those of attention nothing; most of the loss comes from the "
        "feed-forward network."
    ),
    source="Lan et al. 2020, table 4, E=128",
    variants=variants,
    paper_header=("shared", "parameters", "average of five tasks"),
    paper_rows=(
        ("all", "12M", "80.1"),
        ("attention", "64M", "81.7"),
        ("ffn", "38M", "80.2"),
        ("none", "89M", "81.6"),
    ),
)
