"""What layers share: all, attention, the feed-forward network, or nothing."""

from albert_tf.config import SHARING_STRATEGIES
from experiments.experiment import Claim, Experiment, Score, Variant
from experiments.scales import Scale


def variants(scale: Scale) -> list[Variant]:
    """Returns the four strategies, then layers in two groups."""
    return [
        *(
            Variant.of(scale, strategy, parameter_sharing=strategy)
            for strategy in SHARING_STRATEGIES
        ),
        Variant.of(scale, "two groups", num_hidden_groups=2),
    ]


def claims(scale: Scale) -> list[Claim]:
    """Returns what the paper says of sharing."""
    return [
        Claim(
            "sharing all parameters costs quality",
            Score("none"),
            Score("all"),
        ),
        Claim(
            "sharing the feed-forward network costs more than attention",
            Score("attention"),
            Score("ffn"),
        ),
    ]


EXPERIMENT = Experiment(
    title="Parameter sharing",
    source="Lan et al. 2020, table 4, E=128",
    variants=variants,
    claims=claims,
    paper_header=("shared", "parameters", "average of five tasks"),
    paper_rows=(
        ("all", "12M", "80.1"),
        ("attention", "64M", "81.7"),
        ("ffn", "38M", "80.2"),
        ("none", "89M", "81.6"),
    ),
)
