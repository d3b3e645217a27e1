"""The width of the embeddings, with and without shared layers."""

from experiments.experiment import Claim, Experiment, Score, Variant
from experiments.scales import Scale


def _sizes(scale: Scale) -> tuple[int, ...]:
    hidden = scale.config.hidden_size
    return hidden // 8, hidden // 4, hidden // 2, hidden


def variants(scale: Scale) -> list[Variant]:
    """Returns four widths, with nothing shared and with everything shared."""
    return [
        Variant.of(
            scale,
            f"{sharing}, E={size}",
            embedding_size=size,
            parameter_sharing=sharing,
        )
        for sharing in ("none", "all")
        for size in _sizes(scale)
    ]


def claims(scale: Scale) -> list[Claim]:
    """Returns what the paper says of the width."""
    small, medium, _, large = _sizes(scale)
    return [
        Claim(
            "without sharing, larger embeddings are better",
            Score(f"none, E={large}"),
            Score(f"none, E={small}"),
        ),
        Claim(
            "with all parameters shared, a sixth or a quarter of H is better "
            "than H",
            Score(f"all, E={medium}"),
            Score(f"all, E={large}"),
        ),
    ]


EXPERIMENT = Experiment(
    title="Embedding size",
    source="Lan et al. 2020, table 3",
    variants=variants,
    claims=claims,
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
