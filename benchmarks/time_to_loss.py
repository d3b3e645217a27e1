"""Compares runs by the time in which they reach a held-out loss.

    python benchmarks/time_to_loss.py runs/constant runs/depth

Each folder is the `--output_dir` of a finished pretraining with `--do_eval`.
Printed are, for each run, its last held-out scores, the seconds of its updates,
and after how many of them it had the loss that the first run has at its end,
interpolated between two evaluations. Train the runs one after another and leave
the machine alone meanwhile. The last line of the output is one JSON object.
"""

import argparse
import json
import pathlib
from collections.abc import Sequence
from typing import Any

LOSS = "eval_masked_lm_loss"
SCORES = (LOSS, "eval_masked_lm_accuracy", "eval_sentence_order_accuracy")


def read_evaluations(folder: pathlib.Path) -> list[dict[str, Any]]:
    """Returns the evaluations of a run, each with its `seconds` of updates."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    run = json.loads((folder / "run.json").read_text())
    batch_size = run["train_batch_size"]
    last_step, seconds, evaluations = 0, 0.0, []
    for line in map(json.loads, lines):
        if "sequences_per_second" in line:
            num_sequences = (line["step"] - last_step) * batch_size
            seconds += num_sequences / line["sequences_per_second"]
            last_step = line["step"]
        if LOSS in line:
            evaluations.append({"seconds": seconds} | line)
    return evaluations


def seconds_to(
    evaluations: Sequence[dict[str, Any]], goal: float
) -> float | None:
    """Returns when the loss reaches a goal; None if it does not."""
    before = None
    for evaluation in evaluations:
        loss, seconds = evaluation[LOSS], evaluation["seconds"]
        if loss <= goal:
            if before is None:
                return seconds
            share = (before[LOSS] - goal) / (before[LOSS] - loss)
            return before["seconds"] + share * (seconds - before["seconds"])
        before = evaluation
    return None


def main() -> None:
    """Reads the logs, and prints the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="RUN")
    folders = parser.parse_args().runs
    curves = {str(folder): read_evaluations(folder) for folder in folders}
    goal = curves[str(folders[0])][-1][LOSS]
    results = {}
    for name, evaluations in curves.items():
        last = evaluations[-1]
        results[name] = {
            "steps": last["step"],
            "seconds": round(last["seconds"], 1),
            **{score: last[score] for score in SCORES if score in last},
            "seconds_to_loss_of_first": seconds_to(evaluations, goal),
        }
        print(name)
        for key, value in results[name].items():
            print(f"  {key:28} {'never' if value is None else f'{value:.5g}'}")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
