"""ALBERT and BERT trained with equally many operations.

The paper gives them equal time. Time depends on the machine, so each model is
given the number of steps in which it has done the operations of BERT.
"""

import dataclasses

from albert_tf.config import AlbertConfig
from benchmarks import model_sizes
from experiments.experiment import Claim, Experiment, Score, Variant
from experiments.scales import Scale


def variants(scale: Scale) -> list[Variant]:
    """Returns BERT, ALBERT of its width, and an ALBERT of twice the width."""
    config = scale.config
    wide = 2 * config.hidden_size
    configs = {
        "BERT": dataclasses.replace(
            config,
            embedding_size=config.hidden_size,
            parameter_sharing="none",
        ),
        "ALBERT": config,
        "wide ALBERT": dataclasses.replace(
            config,
            hidden_size=wide,
            intermediate_size=4 * wide,
            num_attention_heads=2 * config.num_attention_heads,
        ),
    }
    length = scale.second.max_seq_length
    operations = {
        label: _operations(own, length) for label, own in configs.items()
    }
    return [
        Variant(
            label=label,
            config=own,
            share_of_steps=round(operations["BERT"] / operations[label], 2),
        )
        for label, own in configs.items()
    ]


def _operations(config: AlbertConfig, length: int) -> float:
    parts = [
        *model_sizes.encoder_parts(config, length),
        *model_sizes.head_parts(config, length),
    ]
    return sum(part.flops for part in parts)


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
