r"""Repeats an experiment of the ALBERT paper.

    python run_experiment.py --name=sharing --scale=tiny \
        --output_dir=experiments_tiny

`tiny` takes minutes for each experiment on two cores, `small` hours; `paper`
prints the commands for a cluster and runs nothing. The text is that of
`--text_file`, every 40th document held out, or else the docstrings on this
machine. The same command goes on where it was, and writes results.json and
report.html.
"""

import pathlib
import subprocess
from typing import Any

from absl import flags

from albert_tf import files
from albert_tf.cli import flags as cli_flags
from albert_tf.cli import program
from albert_tf.text import documents
from albert_tf.training import report as html
from experiments import (
    depth,
    embedding_size,
    masking,
    objective,
    report,
    runs,
    sharing,
    sizes,
    wall_clock,
)
from experiments.scales import SCALES, Scale

EXPERIMENTS = {
    "embedding_size": embedding_size.EXPERIMENT,
    "sharing": sharing.EXPERIMENT,
    "objective": objective.EXPERIMENT,
    "depth": depth.EXPERIMENT,
    "masking": masking.EXPERIMENT,
    "wall_clock": wall_clock.EXPERIMENT,
}
SIZES, ALL = "sizes", "all"
HELD_OUT_EVERY = 40
FIRST_SEED = 12345


def main() -> None:
    """Runs the command."""
    program.run(define_flags, run, description=__doc__)


def define_flags() -> None:
    """Defines the flags of the command."""
    flags.DEFINE_enum(
        "name", None, [SIZES, *EXPERIMENTS, ALL], "Which experiment to run."
    )
    flags.DEFINE_enum(
        "scale", "tiny", list(SCALES), "How large its models are."
    )
    flags.DEFINE_string(
        "text_file",
        None,
        "Comma-separated globs of text, as for create_pretraining_data.py. "
        "Default: the docstrings on this machine.",
    )
    flags.DEFINE_string("output_dir", None, "Folder of all results.")
    flags.DEFINE_integer(
        "num_seeds", None, "Runs of every model.", lower_bound=1
    )


def run(values: cli_flags.FlagValues) -> None:
    """Runs the experiments, or prints their commands."""
    cli_flags.require(values, "name", "output_dir")
    scale = SCALES[values.scale]
    has_sizes = values.name in (SIZES, ALL)
    names = [one for one in EXPERIMENTS if values.name in (one, ALL)]
    folder = pathlib.Path(values.output_dir)
    seeds = range(
        FIRST_SEED, FIRST_SEED + (values.num_seeds or scale.num_seeds)
    )
    if scale.name == "paper":
        print_commands(names, scale, folder, seeds, values.text_file or "TEXT")
        return
    claim(folder, scale, values.text_file)
    sections = []
    if has_sizes:
        print(SIZES, flush=True)
        sections += sizes.sections(sizes.run(folder / SIZES))
    data = folder / "data"
    if names:
        make_data(scale, data, values.text_file)
    for name in names:
        experiment = EXPERIMENTS[name]
        results: list[dict[str, Any]] = []
        for seed in seeds:
            for variant in experiment.variants(scale):
                own = folder / name / f"seed-{seed}"
                print(f"{name}, {variant.name}, seed {seed}", flush=True)
                result = runs.run_variant(
                    variant, experiment, scale, data, own, seed=seed
                )
                results.append(result)
        files.write_json(folder / f"{name}.json", results)
    facts = {"Scale": scale.name, "Commit": commit(), "Seeds": len(seeds)}
    # Those of earlier calls, too.
    for name, experiment in EXPERIMENTS.items():
        path = folder / f"{name}.json"
        if path.exists():
            sections += report.sections(experiment, files.read_json(path))
    html.write(
        folder / "report.html",
        title="The paper's experiments",
        facts=facts,
        sections=sections,
    )
    print(f"Open {(folder / 'report.html').resolve()}")


def print_commands(
    names: list[str],
    scale: Scale,
    folder: pathlib.Path,
    seeds: range,
    text_file: str,
) -> None:
    """Prints all commands of experiments, those for the data first."""
    data = folder / "data"
    texts = {"train": text_file, "held_out": "HELD_OUT_TEXT"}
    print(runs.shown(runs.data_commands(scale, texts, data).values()))
    for name in names:
        experiment = EXPERIMENTS[name]
        objectives = ["sop", "nsp"][: 1 + experiment.crosses_objectives]
        for seed in seeds:
            own = folder / name / f"seed-{seed}"
            for variant in experiment.variants(scale):
                found = runs.commands_of(variant, scale, data, own, seed=seed)
                found += runs.evaluation_commands(
                    variant, scale, data, own, objectives=objectives
                ).values()
                print(f"\n# {name}, {variant.name}, seed {seed}")
                print(f"# {own / variant.name}.json: {variant.config}")
                print(runs.shown(found))


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


def commit() -> str:
    """Returns the commit of the code, if it is known."""
    done = subprocess.run(
        ["git", "-C", str(runs.ROOT), "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"
