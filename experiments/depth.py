"""More passes over the shared block, each depth started from the one below."""

import dataclasses

from experiments.experiment import Experiment, Variant
from experiments.scales import Scale

PAPER_DEPTHS = (1, 3, 6, 12, 24)


def variants(scale: Scale) -> list[Variant]:
    """Returns models of growing depth, then of other widths."""
    base = scale.config.num_hidden_layers
    depths = PAPER_DEPTHS if base == 12 else (1, 2, 4, 8)
    found, below = [], ""
    for depth in depths:
        found.append(
            Variant(
                name=f"layers_{depth}",
                config=dataclasses.replace(
                    scale.config, num_hidden_layers=depth
                ),
                # The block of one layer never learnt what deeper ones do.
                starts_from="" if depth < depths[1] else below,
            )
        )
        below = found[-1].name
    hidden = scale.config.hidden_size
    for width in (hidden // 2, 2 * hidden):
        config = dataclasses.replace(
            scale.config, hidden_size=width, intermediate_size=4 * width
        )
        found.append(Variant(name=f"width_{width}", config=config))
    return found


EXPERIMENT = Experiment(
    title="Depth and width",
    claim=(
        "Scores rise with depth and width, less and less, and fall again at "
        "48 layers and at H=6144."
    ),
    source="Lan et al. 2020, tables 11 and 12",
    variants=variants,
    paper_header=("model", "parameters", "average of five tasks"),
    paper_rows=(
        ("1 layer, H=1024", "18M", "52.9"),
        ("3 layers, H=1024", "18M", "71.2"),
        ("6 layers, H=1024", "18M", "77.2"),
        ("12 layers, H=1024", "18M", "81.5"),
        ("24 layers, H=1024", "18M", "82.1"),
        ("48 layers, H=1024", "18M", "81.8"),
        ("3 layers, H=2048", "60M", "74.6"),
        ("3 layers, H=4096", "225M", "76.3"),
        ("3 layers, H=6144", "499M", "74.0"),
    ),
)
