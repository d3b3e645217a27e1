"""The sizes of ALBERT and BERT: parameters, and the time of a training step."""

import json
import pathlib
from typing import Any

from albert_tf.published_configs import load_config
from benchmarks import model_sizes
from experiments import commands
from experiments.commands import Command

# Parameters and speed relative to BERT-large. Lan et al. 2020, tables 1 and 2.
PAPER = {
    "bert_base": ("108M", 4.7),
    "bert_large": ("334M", 1.0),
    "base_v1": ("12M", 5.6),
    "large_v1": ("18M", 1.7),
    "xlarge_v1": ("60M", 0.6),
    "xxlarge_v1": ("235M", 0.3),
}
FILE = "sizes.json"
REFERENCE = "bert_large"
BATCH, LENGTH, _STEPS = 1, 128, 3


def run(folder: pathlib.Path) -> dict[str, Any]:
    """Counts and times all sizes, unless that is done; returns the results."""
    return {name: measure(name, command(name, folder)) for name in PAPER}


def command(name: str, folder: pathlib.Path) -> Command:
    """Returns the command that times the step of a published model."""
    return commands.create(
        "benchmarks/training.py",
        folder / name,
        config=name,
        batch=BATCH,
        length=LENGTH,
        steps=_STEPS,
        json=True,
    )


def measure(name: str, timed: Command) -> dict[str, Any]:
    """Counts the parameters of a published model, and times its step here."""
    config = load_config(name)
    commands.run(timed)
    lines = timed.log.read_text().splitlines()
    (*_, last) = (line for line in lines if line.startswith("{"))
    return {
        "command": str(timed),
        "parameters": model_sizes.encoder_parameters(config),
        "flops": sum(
            part.flops for part in model_sizes.encoder_parts(config, LENGTH)
        ),
        "step_seconds": json.loads(last)["step_seconds"],
    }
