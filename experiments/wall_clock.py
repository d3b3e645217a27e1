"""ALBERT and BERT trained for the same time."""

import dataclasses

from experiments.experiment import Experiment, Variant
from experiments.scales import Scale

_BUDGETS = {"tiny": "60s", "small": "30m", "paper": "33h"}


def variants(scale: Scale) -> list[Variant]:
    """Returns BERT, ALBERT of its width, and an ALBERT of twice the width."""
    config = scale.config
    wide = 2 * config.hidden_size
    configs = {
        "bert": dataclasses.replace(
            config,
            embedding_size=config.hidden_size,
            parameter_sharing="none",
        ),
        "albert": config,
        "albert_wide": dataclasses.replace(
            config, hidden_size=wide, intermediate_size=4 * wide
        ),
    }
    flags = {"time_budget": _BUDGETS[scale.name]}
    return [
        Variant(name=name, config=one, flags=flags)
        for name, one in configs.items()
    ]


EXPERIMENT = Experiment(
    title="The same time",
    claim=(
        "ALBERT-xxlarge, whose steps take three times as long, is better than "
        "BERT-large after the same time."
    ),
    source="Lan et al. 2020, table 6",
    variants=variants,
    paper_header=("model", "steps", "time", "average of five tasks"),
    paper_rows=(
        ("BERT-large", "400k", "34h", "87.2"),
        ("ALBERT-xxlarge", "125k", "32h", "88.7"),
    ),
)
