r"""Measures how much every layer changes the vectors that it is given.

    python -m albert_tf.analysis.layer_similarity \
        --init_checkpoint=albert,bert --input_file=records/held_out \
        --output_prefix=figure_1

Writes the distance and the angle between input and output of every layer, the
means over the tokens of the records, as figure_1.json and figure_1.png. Each
checkpoint may be of any format and has a curve of its own.

Source: Lan et al. 2020, figure 1. It does not say which means it shows, nor of
which text; these are means of distances and of angles over all tokens that are
not padding, in texts masked as for an evaluation.
"""

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from albert_tf import checks, files
from albert_tf import config as config_lib
from albert_tf.cli import flags as cli_flags
from albert_tf.cli import program
from albert_tf.settings import setting

_SIZE_INCHES = (9.0, 3.6)


class LayerSimilarity(NamedTuple):
    """Means over tokens, one for each layer, in the order of the layers.

    `l2_distance` is between the input and the output vector of the layer,
    `degrees` the angle between them, 0 to 180.
    """

    l2_distance: list[float]
    degrees: list[float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerSimilarityConfig:
    """Settings of the command."""

    init_checkpoint: tuple[str, ...] = setting(
        (), "Checkpoints of any format, separated by commas: a curve for each."
    )
    albert_config_file: str | None = setting(
        None,
        "JSON file with the shape of the models, or the name of a published "
        "one. Default: the config beside each checkpoint.",
    )
    input_file: str = setting(
        "", "Comma-separated globs of pretraining records."
    )
    output_prefix: str = setting(
        "", "Path of the results without .json and .png, which are added."
    )
    eval_batch_size: int = setting(32, "Sequences in a batch.")
    max_eval_steps: int = setting(
        8, "Maximum number of batches, from the first record on."
    )

    def __post_init__(self) -> None:
        for name in ("init_checkpoint", "input_file", "output_prefix"):
            if not getattr(self, name):
                raise ValueError(f"--{name} must be given.")
        for name in ("eval_batch_size", "max_eval_steps"):
            checks.check_integer(name, getattr(self, name), at_least=1)
        if len(set(self.init_checkpoint)) < len(self.init_checkpoint):
            raise ValueError(
                "Every checkpoint must be named once. Received: "
                f"init_checkpoint={','.join(self.init_checkpoint)}."
            )
        for path in self.output_files:
            if os.path.exists(path):
                raise FileExistsError(
                    f"{path!r} exists. Remove it, or pass another "
                    "--output_prefix."
                )

    @property
    def output_files(self) -> tuple[str, str]:
        """Paths of the numbers and of the drawing."""
        prefix = files.check_local(self.output_prefix)
        return f"{prefix}.json", f"{prefix}.png"


def measure(
    model: Any, batches: Iterable[Mapping[str, Any]]
) -> LayerSimilarity:
    """Measures the layers of a model, without dropout.

    Args:
        model: An `AlbertModel` with `output_hidden_states`.
        batches: Dicts of int arrays `[B, S]`: `input_ids`, `input_mask`,
            `segment_ids`.

    Raises:
        ValueError: There is no token.
    """
    totals: list[np.ndarray] = []
    for batch in batches:
        is_token = np.asarray(batch["input_mask"]) > 0
        # [L + 1, T, H]: all tokens of the batch, before and after each layer.
        states = np.stack(
            [
                np.asarray(state, np.float64)[is_token]
                for state in model(batch, training=False)["hidden_states"]
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
    number, distance, angle = sum(totals, np.zeros((3, 1)))
    if not number.all():
        raise ValueError("There is no token to measure the layers with.")
    return LayerSimilarity(
        l2_distance=(distance / number).tolist(),
        degrees=(angle / number).tolist(),
    )


def draw(found: Mapping[str, LayerSimilarity], path: files.Path) -> None:
    """Draws distances and angles by layer, a curve for each model, as PNG."""
    # Not pyplot, which keeps figures in a global state.
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    panels = figure.subplots(1, 2)
    units = ("L2 distance", "angle in degrees")
    for field, (axes, unit) in enumerate(zip(panels, units, strict=True)):
        for one in found.values():
            values = one[field]
            axes.plot(range(1, len(values) + 1), values, marker="o", ms=3)
        axes.set(xlabel="layer", ylabel=unit, ylim=(0, None))
        axes.xaxis.get_major_locator().set_params(integer=True)
    legend = figure.legend(
        panels[0].lines,
        [" "] * len(found),
        loc="outside upper left",
        frameon=False,
    )
    # Set here, because matplotlib reads `$` and `_` in labels as markup.
    for text, name in zip(legend.get_texts(), found, strict=True):
        text.set(text=name, parse_math=False)
    with files.atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=150)


def main() -> None:
    """Runs the command."""
    program.run(define_flags, run, description=__doc__)


def define_flags() -> None:
    """Defines the flags of the command."""
    cli_flags.define(LayerSimilarityConfig)


def run(values: cli_flags.FlagValues) -> None:
    """Measures all checkpoints, then writes both files."""
    settings = cli_flags.read(LayerSimilarityConfig, values)
    config = None
    if settings.albert_config_file:
        config = config_lib.load_config(settings.albert_config_file)
    files.expand_globs(settings.input_file)
    with program.quiet_import():
        from albert_tf.checkpoints import load
        from albert_tf.data import example_order, input_pipeline, record_source
        from albert_tf.modeling.albert_model import AlbertModel
        from albert_tf.training import run_folder

    found = {}
    for path in settings.init_checkpoint:
        loaded = load.load_model(path, head="encoder", config=config)
        model = AlbertModel(loaded.config, output_hidden_states=True)
        model.set_weights(loaded.get_weights())
        source = record_source.open_records(
            settings.input_file, vocab_size=loaded.config.vocab_size
        )
        run_folder.check_vocabulary(path, source.layout.tokenizer_hash)
        batches = input_pipeline.evaluation_dataset(
            source,
            example_order.InputShard(),
            batch_size=settings.eval_batch_size,
            max_steps=settings.max_eval_steps,
        )
        found[path] = measure(model, batches)
    numbers, drawing = settings.output_files
    draw(found, drawing)
    files.write_json(
        numbers, {path: one._asdict() for path, one in found.items()}
    )
    for path, one in found.items():
        print(path)
        for layer, (distance, degrees) in enumerate(zip(*one, strict=True), 1):
            print(f"  layer {layer:2}  {distance:8.3f}  {degrees:7.2f} degrees")


if __name__ == "__main__":
    main()
