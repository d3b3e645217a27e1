"""ALBERT and BERT trained with equally many operations.

The paper gives them equal time. Time depends on the machine, so each model is
given the number of steps in which it has done the operations of BERT.
"""

import dataclasses

from benchmarks import model_sizes
from experiments.experiment import Claim, Experiment, Score, Variant
from experiments.scales import Scale


def variants(scale: Scale) -> list[Variant]:
    """Returns BERT, ALBERT of its width, and an ALBERT of twice the width."""
    hidden, length = scale.config.hidden_size, scale.second.max_seq_length
    configs = {
        "BERT": dataclasses.replace(
            scale.config, embedding_size=hidden, parameter_sharing="none"
        ),
        "ALBERT": scale.config,
        "wide ALBERT": scale.with_width(2 * hidden),
    }
    flops = {
        label: model_sizes.flops(config, length)
        for label, config in configs.items()
    }
    return [
        Variant(
            label=label,
            config=config,
            share_of_steps=round(flops["BERT"] / flops[label], 2),
        )
        for label, config in configs.items()
    ]


def claims(scale: Scale) -> list[Claim]:
    """Returns what the paper says of equal time."""
    return [
        Claim(
            "a wide ALBERT is better than BERT after as many operations",
            Score("wide ALBERT"),
            Score("BERT"),
        )
    ]


EXPERIMENT = Experiment(
    title="Equally many operations",
    source="Lan et al. 2020, table 6, equal time",
    variants=variants,
    claims=claims,
    paper_header=("model", "steps", "time", "average of five tasks"),
    paper_rows=(
        ("BERT-large", "400k", "34h", "87.2"),
        ("ALBERT-xxlarge", "125k", "32h", "88.7"),
    ),
)
