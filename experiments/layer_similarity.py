"""Figure 1: what every layer changes, with all layers shared and with none.

Means of the distance and of the angle between the input and the output of each
layer, over all tokens of held-out records that are not padding, masked as for
an evaluation. The paper does not say which means it shows, nor of which text.
"""

import itertools
import pathlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf import files
from albert_tf.cli import program
from experiments import runs, sharing
from experiments.experiment import Claim, Experiment, Variant
from experiments.runs import Place
from experiments.scales import Scale

FILE = "figure_1.json"
LABELS = ("all", "none")
PAIRS = "sop"
BATCH_SIZE, NUM_BATCHES = 32, 8
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


class LayerSimilarity(NamedTuple):
    """Means over tokens, one for each layer, in the order of the layers.

    `l2_distance` is between the input and the output vector of the layer,
    `degrees` the angle between them, 0 to 180.
    """

    l2_distance: list[float]
    degrees: list[float]


def measure(place: Place) -> dict[str, Any]:
    """Returns the means by label and measure, computed unless that is done."""
    path = place.models / FILE
    if not path.exists():
        curves = {
            variant.label: measure_checkpoint(
                runs.newest_weights(variant, place),
                runs.held_out_records(variant, place, PAIRS),
            )._asdict()
            for variant in variants(place.scale)
        }
        files.write_json(path, curves)
    return files.read_json_object(path)


def measure_checkpoint(
    weights: pathlib.Path, records: pathlib.Path
) -> LayerSimilarity:
    """Measures the layers of a trained model on the first records."""
    with program.quiet_import():
        from albert_tf.checkpoints import load
        from albert_tf.data import example_order, input_pipeline, record_source
        from albert_tf.modeling.albert_model import AlbertModel

    loaded = load.load_model(weights, head="encoder")
    model = AlbertModel(loaded.config, output_hidden_states=True)
    model.set_weights(loaded.get_weights())
    batches = input_pipeline.evaluation_dataset(
        record_source.open_records(str(records)),
        example_order.InputShard(),
        batch_size=BATCH_SIZE,
        max_steps=NUM_BATCHES,
    )
    return measure_layers(model, batches)


def measure_layers(
    model: Any, batches: Iterable[Mapping[str, Any]]
) -> LayerSimilarity:
    """Measures the layers of an `AlbertModel` with `output_hidden_states`."""
    totals: list[np.ndarray] = []
    names = ("input_ids", "input_mask", "segment_ids")
    for batch in batches:
        inputs = {name: batch[name] for name in names}
        is_token = np.asarray(inputs["input_mask"]) > 0
        # [L + 1, T, H]: all tokens of the batch, before and after each layer.
        states = np.stack(
            [
                np.asarray(state, np.float64)[is_token]
                for state in model(inputs, training=False)["hidden_states"]
            ]
        )
        before, after = states[:-1], states[1:]
        lengths = np.linalg.norm(states, axis=-1)
        products = lengths[:-1] * lengths[1:]
        cosines = (before * after).sum(-1) / np.maximum(products, 1e-30)
        angles = np.degrees(np.arccos(np.clip(cosines, -1, 1)))
        distances = np.linalg.norm(after - before, axis=-1)
        ones = np.ones_like(angles)
        totals.append(np.stack([ones, distances, angles]).sum(-1))  # [3, L]
    num_tokens, distance, angle = sum(totals)
    return LayerSimilarity(
        l2_distance=(distance / num_tokens).tolist(),
        degrees=(angle / num_tokens).tolist(),
    )


def roughness(values: Sequence[float]) -> float:
    """Returns how much a curve changes from layer to layer, of its mean.

    >>> roughness([1.0, 3.0, 2.0])
    0.75
    """
    steps = [
        abs(after - before) for before, after in itertools.pairwise(values)
    ]
    return statistics.mean(steps) / statistics.mean(values)
