r"""Repeats an experiment of the ALBERT paper.

    python run_experiment.py --name=sharing --scale=tiny \
        --output_dir=experiments_tiny

`tiny` takes minutes for each experiment on two cores, `small` hours. The text
is that of `--text_file`, every 40th document held out, or else the docstrings
on this machine. The same command goes on where it was, and writes report.html
and a JSON file for each experiment.
"""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from albert_tf import checks, files, settings
from albert_tf.cli import flags as cli_flags
from albert_tf.cli import program
from albert_tf.settings import setting
from albert_tf.text import documents
from experiments import (
    commands,
    depth,
    downstream,
    embedding_size,
    equal_operations,
    layer_similarity,
    long_texts,
    masking,
    objective,
    runs,
    sharing,
    sizes,
)
from experiments.experiment import Experiment, Variant
from experiments.runs import Place
from experiments.scales import SCALES, Scale

SIZES, FIGURE, ALL = "sizes", "layer_similarity", "all"
LONG_TEXTS = "long_texts"
EXPERIMENTS = {
    "embedding_size": embedding_size.EXPERIMENT,
    "sharing": sharing.EXPERIMENT,
    "objective": objective.EXPERIMENT,
    "depth": depth.EXPERIMENT,
    "masking": masking.EXPERIMENT,
    FIGURE: layer_similarity.EXPERIMENT,
    "equal_operations": equal_operations.EXPERIMENT,
    LONG_TEXTS: long_texts.EXPERIMENT,
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
    precision: str = setting(
        "float32",
        "Precision of all trainings. On some CPUs, bfloat16 halves the time.",
        choices=["float32", "bfloat16"],
    )
    text_file: str | None = setting(
        None,
        "Comma-separated globs of text, as for create_pretraining_data.py. "
        "Default: the docstrings on this machine.",
    )
    output_dir: str | None = setting(None, "Folder of all results.")
    num_seeds: int | None = setting(
        None, "Runs of every model. Default: that of the scale."
    )
    tasks: tuple[str, ...] = setting(
        (),
        "Comma-separated tasks on which every model is fine-tuned, with three "
        f"seeds: {', '.join(downstream.TASKS)}.",
    )
    data_dir: str | None = setting(
        None,
        "Folder of the tasks: the folders of GLUE; RACE/{train,dev}; "
        "SQuAD/{train,dev}-v1.1.json.",
    )

    def __post_init__(self) -> None:
        if self.num_seeds is not None:
            checks.check_integer("num_seeds", self.num_seeds, at_least=1)
        if self.name == LONG_TEXTS and self.text_file is None:
            raise ValueError(
                "The docstrings on this machine are not long. Pass long "
                "documents, such as novels, as --text_file."
            )
        for task in self.tasks:
            checks.check_choice("tasks", task, downstream.TASKS)
        if bool(self.tasks) != (self.data_dir is not None):
            raise ValueError("Pass --tasks and --data_dir together.")


def main() -> None:
    """Runs the command."""
    program.run(define_flags, run, description=__doc__)


def define_flags() -> None:
    """Defines the flags of the command."""
    cli_flags.define(ExperimentConfig)


def run(values: cli_flags.FlagValues) -> None:
    """Runs the experiments, and writes their report."""
    config = settings.read(ExperimentConfig, cli_flags.given(values))
    if not (config.name and config.output_dir):
        raise ValueError("--name and --output_dir must be given.")
    scale = dataclasses.replace(
        SCALES[config.scale], precision=config.precision
    )
    config = dataclasses.replace(
        config, num_seeds=config.num_seeds or scale.num_seeds
    )
    names = [
        name
        for name, one in EXPERIMENTS.items()
        if config.name == name or (config.name == ALL and one.paper_rows)
    ]
    folder = pathlib.Path(config.output_dir)
    for task in config.tasks:
        downstream.check(task, pathlib.Path(config.data_dir))
    claim(folder, scale, config)
    if config.name in (SIZES, ALL):
        print(SIZES, flush=True)
        files.write_json(folder / sizes.FILE, sizes.run(folder / SIZES))
    if names:
        variants = [
            v for name in names for v in EXPERIMENTS[name].variants(scale)
        ]
        make_data(scale, folder / "data", config.text_file, variants)
    places = [
        Place(scale, folder / "data", folder / f"seed-{seed}", seed)
        for seed in range(FIRST_SEED, FIRST_SEED + config.num_seeds)
    ]
    for name in names:
        results = [
            result
            for place in places
            for result in run_seed(EXPERIMENTS[name], place, config)
        ]
        files.write_json(folder / f"{name}.json", results)
        if name == FIGURE:
            curves = [layer_similarity.measure(place) for place in places]
            files.write_json(folder / layer_similarity.FILE, curves)
    with program.quiet_import():
        from experiments import report
    report.write(
        folder,
        EXPERIMENTS,
        facts={"Scale": scale.name, "Text": config.text_file or "docstrings"},
        scale=scale,
    )
    print(f"Open {(folder / 'report.html').resolve()}")


def run_seed(
    experiment: Experiment, place: Place, config: ExperimentConfig
) -> list[dict[str, Any]]:
    """Trains and evaluates the models of a seed; returns a result for each."""
    results = []
    for variant in experiment.variants(place.scale):
        print(f"{experiment.title}: {variant.label}, seed {place.seed}")
        trained = runs.train(variant, place)
        scores = {
            pairs: runs.evaluate(variant, place, pairs)
            for pairs in experiment.pairs
        }
        tasks = {
            task: downstream.evaluate(
                variant, place, task, pathlib.Path(config.data_dir)
            )
            for task in config.tasks
        }
        names = {"label": variant.label, "seed": place.seed}
        results.append({**names, **trained, "scores": scores, "tasks": tasks})
    return results


def claim(folder: pathlib.Path, scale: Scale, config: ExperimentConfig) -> None:
    """Says what the results in a folder are of."""
    path = folder / "experiments.json"
    own = {**dataclasses.asdict(scale), "text_file": config.text_file}
    more = {
        "num_seeds": config.num_seeds,
        "tasks": [*config.tasks],
        "data_dir": config.data_dir,
    }
    if path.exists():
        before = files.read_json_object(path)
        more_before = before.pop("more")
        if different := checks.differences(before, own):
            raise ValueError(
                f"{str(folder)!r} has results of other settings: "
                f"{checks.listed(different)}. Pass another --output_dir."
            )
        _check_more(more_before, more, folder)
    elif folder.exists() and any(folder.iterdir()):
        raise ValueError(
            f"{str(folder)!r} contains files but no experiments.json. Pass "
            "another --output_dir."
        )
    files.write_json(path, own | {"more": more})


def _check_more(
    before: dict[str, Any], now: dict[str, Any], folder: pathlib.Path
) -> None:
    """Checks that the new results have all that the old ones have."""
    if (
        before["num_seeds"] > now["num_seeds"]
        or set(before["tasks"]) - set(now["tasks"])
        or before["data_dir"] not in (None, now["data_dir"])
    ):
        raise ValueError(
            f"{str(folder)!r} has results of --num_seeds="
            f"{before['num_seeds']} --tasks={','.join(before['tasks'])} "
            f"--data_dir={before['data_dir']}, which would be lost. Pass at "
            "least these."
        )


def make_data(
    scale: Scale,
    folder: pathlib.Path,
    text_file: str | None,
    variants: Sequence[Variant],
) -> None:
    """Makes texts, vocabulary and records that are not there yet."""
    texts = {part: folder / f"{part}.txt" for part in runs.PARTS}
    if not all(path.exists() for path in texts.values()):
        folder.mkdir(exist_ok=True)
        for path, found in zip(texts.values(), split(text_file), strict=True):
            files.write_text(path, found)
    paths = {part: str(path) for part, path in texts.items()}
    for one in runs.data_commands(scale, paths, folder, variants):
        commands.run(one)


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
