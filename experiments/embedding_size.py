"""The width of the embeddings, with and without shared layers."""

import dataclasses

from experiments.experiment import Experiment, Variant
from experiments.scales import Scale


def variants(scale: Scale) -> list[Variant]:
    """Returns widths from H / 12 or H / 8 to H, shared and not."""
    hidden = scale.config.hidden_size
    sizes = (64, 128, 256, 768)
    if hidden != sizes[-1]:
        sizes = (hidden // 8, hidden // 4, hidden // 2, hidden)
    return [
        Variant(
            name=f"{sharing}_{size}",
            config=dataclasses.replace(
                scale.config, embedding_size=size, parameter_sharing=sharing
            ),
        )
        for sharing in ("none", "all")
        for size in sizes
    ]


EXPERIMENT = Experiment(
    title="Embedding size",
    claim=(
        "Without sharing, larger embeddings are a little better; with all "
        "parameters shared, E=128 is best."
    ),
    source="Lan et al. 2020, table 3",
    variants=variants,
    paper_header=("shared", "E", "parameters", "average of five tasks"),
    paper_rows=(
        ("none", "64", "87M", "81.3"),
        ("none", "128", "89M", "81.7"),
        ("none", "256", "93M", "81.8"),
        ("none", "768", "108M", "82.3"),
        ("all", "64", "10M", "79.0"),
        ("all", "128", "12M", "80.1"),
        ("all", "256", "16M", "79.6"),
        ("all", "768", "31M", "79.8"),
    ),
)
