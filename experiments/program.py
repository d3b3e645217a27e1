r"""Repeats an experiment of the ALBERT paper.

    python run_experiment.py --name=sharing --scale=tiny \
        --output_dir=experiments_tiny

`tiny` takes minutes for each experiment on two cores, `small` hours; `paper`
prints the commands for a cluster, writes the configs they name and runs
nothing. The text is that of `--text_file`, every 40th document held out, or
else the docstrings on this machine. The same command goes on where it was, and
writes report.html and a JSON file for each experiment.
"""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from albert_tf import checks, files
from albert_tf.cli import flags as cli_flags
from albert_tf.cli import program
from albert_tf.settings import setting
from albert_tf.text import documents
from experiments import (
    depth,
    embedding_size,
    layer_similarity,
    masking,
    objective,
    runs,
    sharing,
    sizes,
    wall_clock,
)
from experiments.experiment import Experiment
from experiments.runs import Place
from experiments.scales import SCALES, Scale

SIZES, FIGURE, ALL = "sizes", "layer_similarity", "all"
EXPERIMENTS = {
    "embedding_size": embedding_size.EXPERIMENT,
    "sharing": sharing.EXPERIMENT,
    "objective": objective.EXPERIMENT,
    "depth": depth.EXPERIMENT,
    "masking": masking.EXPERIMENT,
    FIGURE: layer_similarity.EXPERIMENT,
    "wall_clock": wall_clock.EXPERIMENT,
}
HELD_OUT_EVERY = 40
FIRST_SEED = 12345


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentConfig:
    """Settings of the command."""

    name: str | None = setting(
        None,
        "Which experiment to run.",
        choices=[SIZES, *EXPERIMENTS, ALL],
    )
    scale: str = setting("tiny", "How large its models are.", choices=[*SCALES])
    text_file: str | None = setting(
        None,
        "Comma-separated globs of text, as for create_pretraining_data.py. "
        "Default: the docstrings on this machine.",
    )
    output_dir: str | None = setting(None, "Folder of all results.")
    num_seeds: int | None = setting(
        None, "Runs of every model. Default: that of the scale."
    )

    def __post_init__(self) -> None:
        if self.num_seeds is not None:
            checks.check_integer("num_seeds", self.num_seeds, at_least=1)


def main() -> None:
    """Runs the command."""
    program.run(define_flags, run, description=__doc__)


def define_flags() -> None:
    """Defines the flags of the command."""
    cli_flags.define(ExperimentConfig)


def run(values: cli_flags.FlagValues) -> None:
    """Runs the experiments, or prints their commands."""
    cli_flags.require(values, "name", "output_dir")
    config = cli_flags.read(ExperimentConfig, values)
    scale = SCALES[config.scale]
    names = [one for one in EXPERIMENTS if config.name in (one, ALL)]
    folder = pathlib.Path(config.output_dir)
    data = folder / "data"
    seeds = range(
        FIRST_SEED, FIRST_SEED + (config.num_seeds or scale.num_seeds)
    )
    places = [Place(scale, data, folder / f"seed-{s}", s) for s in seeds]
    claim(folder, scale, config.text_file)
    if scale.name == "paper":
        print(paper_commands(names, places, config.text_file or "TEXT"))
        return
    if config.name in (SIZES, ALL):
        print(SIZES, flush=True)
        files.write_json(folder / sizes.FILE, sizes.run(folder / SIZES))
    if names:
        make_data(scale, data, config.text_file)
    for name in names:
        results = run_experiment(EXPERIMENTS[name], places)
        files.write_json(folder / f"{name}.json", results)
        if name == FIGURE:
            found = [layer_similarity.measure(place) for place in places]
            files.write_json(folder / layer_similarity.FILE, found)
    with program.quiet_import():
        from experiments import report
    report.write(
        folder,
        EXPERIMENTS,
        facts={"Scale": scale.name, "Text": config.text_file or "docstrings"},
        scale=scale,
    )
    print(f"Open {(folder / 'report.html').resolve()}")


def run_experiment(
    experiment: Experiment, places: Sequence[Place]
) -> list[dict[str, Any]]:
    """Trains and evaluates all models; returns a result for each and seed."""
    results = []
    for place in places:
        for variant in experiment.variants(place.scale):
            print(
                f"{experiment.title}: {variant.label}, seed {place.seed}",
                flush=True,
            )
            trained = runs.train(variant, place)
            scores = {
                pairs: runs.evaluate(variant, place, pairs)
                for pairs in experiment.pairs
            }
            names = {"label": variant.label, "seed": place.seed}
            results.append({**names, **trained, "scores": scores})
    return results


def paper_commands(
    names: Sequence[str], places: Sequence[Place], text_file: str
) -> str:
    """Returns all commands of experiments, those for the data first.

    The shapes of the models, which the commands name, are written.
    """
    scale, data, *_ = places[0]
    texts = {"train": text_file, "held_out": "HELD_OUT_TEXT"}
    lines = [runs.shown(runs.data_commands(scale, texts, data).values())]
    seen: set[pathlib.Path] = set()
    for name in names:
        for place in places:
            for variant in EXPERIMENTS[name].variants(scale):
                lines += ["", f"# {name}, {variant.label}, seed {place.seed}"]
                runs.write_config(variant, place)
                commands = runs.training_commands(variant, place)
                for pairs in EXPERIMENTS[name].pairs:
                    made, one = runs.evaluation_command(variant, place, pairs)
                    commands[made] = one
                new = {k: v for k, v in commands.items() if k not in seen}
                seen.update(new)
                lines.append(runs.shown(new.values()) or "# as another above")
            if name == FIGURE:
                _, one = layer_similarity.command(place)
                lines.append(runs.shown([one]))
    return "\n".join(lines)


def claim(folder: pathlib.Path, scale: Scale, text_file: str | None) -> None:
    """Says whose results a folder holds.

    Raises:
        ValueError: Those of another scale or another text.
    """
    path = folder / "experiments.json"
    own = {"scale": scale.name, "text_file": text_file}
    if path.exists():
        theirs = files.read_json_object(path)
        if theirs != own:
            raise ValueError(
                f"{str(folder)!r} has the results of {theirs}, not of {own}. "
                "Pass another --output_dir."
            )
    elif folder.exists() and any(folder.iterdir()):
        raise ValueError(
            f"{str(folder)!r} contains files but no experiments.json. Pass "
            "another --output_dir."
        )
    else:
        folder.mkdir(parents=True, exist_ok=True)
        files.write_json(path, own)


def make_data(
    scale: Scale, folder: pathlib.Path, text_file: str | None
) -> None:
    """Makes texts, vocabulary and records that are not there yet."""
    texts = {part: folder / f"{part}.txt" for part in ("train", "held_out")}
    if not all(path.exists() for path in texts.values()):
        folder.mkdir(exist_ok=True)
        for path, found in zip(texts.values(), split(text_file), strict=True):
            files.write_text(path, found)
    paths = {part: str(path) for part, path in texts.items()}
    for path, one in runs.data_commands(scale, paths, folder).items():
        if not path.exists():
            runs.call(one, folder / "data.log")


def split(text_file: str | None) -> tuple[str, str]:
    """Returns the training and the held-out text."""
    if text_file is None:
        from demo import corpus

        train, held_out = corpus.train_and_held_out()
        return corpus.to_text(train), corpus.to_text(held_out)
    parts: tuple[list[str], list[str]] = ([], [])
    settings = documents.CorpusSettings(input_file=text_file)
    for number, one in enumerate(documents.Documents(settings)):
        is_held_out = number % HELD_OUT_EVERY == HELD_OUT_EVERY // 2
        lines = [line for line in one.sentences() if line.strip()]
        parts[is_held_out].append("\n".join(lines) + "\n")
    if not parts[1]:
        raise ValueError(
            f"The text has fewer than {HELD_OUT_EVERY // 2 + 1} documents, of "
            f"which none would be held out. Received: text_file={text_file}."
        )
    return "\n".join(parts[0]), "\n".join(parts[1])
