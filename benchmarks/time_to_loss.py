"""Compares recipes of pretraining by the loss that they reach in equal time.

    python benchmarks/time_to_loss.py --output_dir=runs --seconds=600 \
        --lever='depth=--depth_schedule=1@0,2@300,4@600' \
        --lever='batch=--batch_schedule=16@0,32@500' \
        --lever='length=--input_file=train.32,train.64
            --length_schedule=32@0,64@700' \
        -- --albert_config_file=small.json --input_file=train.64 \
        --eval_file=held_out.64 --max_seq_length=64 --train_batch_size=32 \
        --save_checkpoints_steps=100 --max_eval_steps=20

The flags after `--` are those of `run_pretraining.py` for all recipes. The
recipe `constant` has no others, each lever is a recipe with its own flags
besides, and `all` has those of all levers. Each recipe is trained with
`--time_budget`, one after another, in a folder of its own: steps of schedules,
of `--num_warmup_steps` for instance, are thousandths of the time unless
`--num_train_steps` is given.

A `--peer` is a command that trains another library's model: `--output_dir` and
`--seconds` are added to it, and it writes the same files, `metrics.jsonl` and
`eval_results.json`.

Printed are held-out loss and accuracy against seconds, and when each recipe
reaches what `constant` and the peers have at their end, interpolated between
two evaluations; 0 means that it is no better than before the first update.
Run again, it skips finished recipes and goes on with one that was killed. Time
that other programs take from one recipe is time that it lacks: leave the
machine alone. Every evaluation and checkpoint takes time, too, so the interval
should be large. The last line of the output is one JSON object.
"""

import argparse
import json
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONSTANT, ALL = "constant", "all"
NUM_TRAIN_STEPS = 1000
# Names of the scores, and whether more of them is better.
SCORES = {"masked_lm_loss": False, "sentence_order_accuracy": True}


class Evaluation(NamedTuple):
    """Scores of a recipe after some updates, which took so many seconds."""

    seconds: float
    step: int
    scores: dict[str, float]


def parse_arguments() -> tuple[argparse.Namespace, list[str]]:
    """Reads the command line; returns the flags of all recipes, too."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="Flags of run_pretraining.py for all recipes follow after --.",
    )
    parser.add_argument("--output_dir", required=True, type=pathlib.Path)
    parser.add_argument("--seconds", type=int, required=True, help="of each")
    parser.add_argument(
        "--lever",
        action="append",
        default=[],
        metavar="NAME=FLAGS",
        help="recipe with these flags; may be repeated",
    )
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="program to train in turn; may be repeated",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the JSON line only"
    )
    own, common = sys.argv[1:], []
    if "--" in own:
        place = own.index("--")
        own, common = own[:place], own[place + 1 :]
    return parser.parse_args(own), common


def commands_of(
    arguments: argparse.Namespace, common: Sequence[str]
) -> dict[str, list[str]]:
    """Returns the command of each recipe and peer, by its name."""
    recipes: dict[str, list[str]] = {CONSTANT: []}
    for lever in arguments.lever:
        name, flags = _named("lever", lever, (*recipes, ALL))
        recipes[name] = flags
    if len(arguments.lever) > 1:
        recipes[ALL] = sum(recipes.values(), [])
    commands = {
        name: [
            sys.executable,
            str(ROOT / "run_pretraining.py"),
            f"--num_train_steps={NUM_TRAIN_STEPS}",
            "--num_warmup_steps=50",
            "--do_eval",
            *common,
            *flags,
            f"--time_budget={arguments.seconds}s",
        ]
        for name, flags in recipes.items()
    }
    for peer in arguments.peer:
        name, command = _named("peer", peer, (*commands, ALL))
        commands[name] = [*command, f"--seconds={arguments.seconds}"]
    return commands


def _named(
    flag: str, value: str, taken: Sequence[str]
) -> tuple[str, list[str]]:
    name, equals, text = value.partition("=")
    if not equals or name in taken:
        sys.exit(
            f"error: --{flag}={value} is not a name of its own, = and more"
        )
    return name, shlex.split(text)


def train(folder: pathlib.Path, command: Sequence[str]) -> None:
    """Trains a recipe, or goes on with it, unless it is finished."""
    if (folder / "eval_results.json").exists():
        return
    log = folder.with_suffix(".log")
    with log.open("ab") as output:
        done = subprocess.run(
            [*command, f"--output_dir={folder}"],
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        sys.exit(
            f"error: {folder.name} ended with {done.returncode}; see {log}"
        )


def evaluations_of(folder: pathlib.Path) -> list[Evaluation]:
    """Returns the evaluations of a finished recipe, in their order."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    found = []
    for line in map(json.loads, lines):
        scores = {
            name: line[f"eval_{name}"]
            for name in SCORES
            if f"eval_{name}" in line
        }
        if scores:
            found.append(Evaluation(line["seconds"], line["step"], scores))
    return found


def seconds_to(
    evaluations: Sequence[Evaluation], name: str, goal: float
) -> float | None:
    """Returns when a score reaches a goal; None if it does not."""
    sign = 1 if SCORES[name] else -1
    before: tuple[float, float] | None = None
    for one in evaluations:
        lead = sign * (one.scores[name] - goal)
        if lead >= 0:
            if before is None:
                return one.seconds
            seconds, lack = before
            share = lack / (lack + lead)
            return seconds + share * (one.seconds - seconds)
        before = one.seconds, -lead
    return None


def summarize(
    curves: dict[str, list[Evaluation]], goals: Sequence[str], budget: int
) -> dict[str, Any]:
    """Returns last scores and times of all recipes.

    Args:
        curves: Evaluations by recipe.
        goals: Recipes whose last scores the others are to reach.
        budget: Seconds of a recipe.
    """
    summary: dict[str, Any] = {"seconds": budget, "recipes": {}}
    for recipe, evaluations in curves.items():
        last = evaluations[-1]
        summary["recipes"][recipe] = {
            "updates": last.step,
            **last.scores,
            **{
                f"seconds_to_{name}_of_{other}": seconds_to(
                    evaluations, name, goal
                )
                for other in goals
                for name, goal in curves[other][-1].scores.items()
                if name in last.scores
            },
            "curve": [
                [round(one.seconds, 1), *one.scores.values()]
                for one in evaluations
            ],
        }
    return summary


def show(summary: dict[str, Any]) -> None:
    """Prints the curves, then a line for each recipe."""
    for recipe, facts in summary["recipes"].items():
        print(
            f"{recipe}: seconds, {', '.join(n for n in SCORES if n in facts)}"
        )
        for row in facts["curve"]:
            print("".join(f"{value:12.4g}" for value in row))
    for recipe, facts in summary["recipes"].items():
        print(recipe)
        for name, value in facts.items():
            if name != "curve":
                shown = "never" if value is None else f"{value:.4g}"
                print(f"  {name:50} {shown}")


def main() -> None:
    """Trains what is not trained yet, and prints the comparison."""
    arguments, common = parse_arguments()
    arguments.output_dir.mkdir(parents=True, exist_ok=True)
    curves = {}
    for name, command in commands_of(arguments, common).items():
        folder = arguments.output_dir / name
        train(folder, command)
        curves[name] = evaluations_of(folder)
    goals = [CONSTANT, *(peer.partition("=")[0] for peer in arguments.peer)]
    summary = summarize(curves, goals, arguments.seconds)
    if not arguments.json:
        show(summary)
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
