"""ALBERT and BERT trained for the same time."""

import dataclasses

from albert_tf.config import published_config
from experiments.experiment import Claim, Experiment, Score, Variant
from experiments.scales import Scale


def variants(scale: Scale) -> list[Variant]:
    """Returns BERT, ALBERT of its width, and an ALBERT of twice the width.

    At the paper's scale these are the paper's models.
    """
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
    if scale.is_paper:
        models = ("bert_large", "large_v1", "xxlarge_v1")
        published = map(published_config, models)
        configs = dict(zip(configs, published, strict=True))
    return [
        Variant(label=label, config=one, has_time_budget=True)
        for label, one in configs.items()
    ]


def claims(scale: Scale) -> list[Claim]:
    """Returns what the paper says of equal time."""
    return [
        Claim(
            "a wide ALBERT is better than BERT after the same time",
            Score("wide ALBERT"),
            Score("BERT"),
        )
    ]


EXPERIMENT = Experiment(
    title="The same time",
    source="Lan et al. 2020, table 6",
    variants=variants,
    claims=claims,
    paper_header=("model", "steps", "time", "average of five tasks"),
    paper_rows=(
        ("BERT-large", "400k", "34h", "87.2"),
        ("ALBERT-xxlarge", "125k", "32h", "88.7"),
    ),
)
