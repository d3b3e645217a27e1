"""Figure 1: what every layer changes, with all layers shared and with none."""

import itertools
import statistics
from collections.abc import Sequence
from typing import Any

from albert_tf import files
from experiments import commands, runs, sharing
from experiments.commands import Command
from experiments.experiment import Claim, Experiment, Variant
from experiments.runs import Place
from experiments.scales import Scale

FILE = "figure_1.json"
LABELS = ("all", "none")
MEASURES = {"l2_distance": "L2 distance", "degrees": "angle in degrees"}


def variants(scale: Scale) -> list[Variant]:
    """Returns the models of the sharing experiment that are drawn."""
    return [one for one in sharing.variants(scale) if one.label in LABELS]


def claims(scale: Scale) -> list[Claim]:
    """Returns nothing: the claim is of curves, not of scores."""
    return []


EXPERIMENT = Experiment(
    title="Input and output of layers",
    source="Lan et al. 2020, figure 1",
    variants=variants,
    claims=claims,
    paper_header=("models", "what the figure shows"),
    paper_rows=(
        (
            "BERT-large, ALBERT-large",
            "distance and angle from layer to layer are much smoother for "
            "ALBERT; they do not come near 0 after 24 layers",
        ),
    ),
)


def command(place: Place) -> Command:
    """Returns the command that draws the figure of a seed."""
    made = place.models / "figure_1.json"
    checkpoints = [
        str(runs.newest_weights(one, place)) for one in variants(place.scale)
    ]
    return commands.create(
        "albert_tf.analysis.layer_similarity",
        made,
        refused=[made, made.with_suffix(".png")],
        init_checkpoint=",".join(checkpoints),
        input_file=place.data / "held_out.sop",
        output_prefix=made.with_suffix(""),
    )


def measure(place: Place) -> dict[str, Any]:
    """Returns the means by layer and label, measured unless that is done."""
    one = command(place)
    commands.run(one, place.num_threads)
    found = files.read_json_object(one.made)
    return dict(zip(LABELS, found.values(), strict=True))


def roughness(values: Sequence[float]) -> float:
    """Returns how much a curve changes from layer to layer, of its mean.

    >>> roughness([1.0, 3.0, 2.0])
    0.75
    """
    steps = [
        abs(after - before) for before, after in itertools.pairwise(values)
    ]
    return statistics.mean(steps) / statistics.mean(values)
