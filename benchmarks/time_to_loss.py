"""Compares runs by the time in which they reach a held-out loss.

    python benchmarks/time_to_loss.py runs/constant runs/depth

Each folder is the `--output_dir` of a finished pretraining with `--do_eval`.
Printed are, for each run, its last held-out scores, the seconds of its updates,
and after how many of them it had the loss that the first run has at its end,
interpolated between two evaluations. An update takes as long as the median of
its phase says, so that a short disturbance does not count. Train the runs one
after another all the same. The last line of the output is one JSON object.
"""

import argparse
import collections
import json
import pathlib
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

LOG = "metrics.jsonl"
SPEED = "sequences_per_second"
LOSS = "eval_masked_lm_loss"
SCORES = (LOSS, "eval_masked_lm_accuracy", "eval_sentence_order_accuracy")


def timed_lines(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Yields the lines of a run's log, each with its `seconds` of updates."""
    run = json.loads((folder / "run.json").read_text())
    size = run["train_batch_size"]
    lines = [*map(json.loads, (folder / LOG).read_text().splitlines())]
    speeds = collections.defaultdict(list)
    for line in lines:
        if SPEED in line:
            speeds[_phase(line)].append(line[SPEED])
    last_step, seconds = 0, 0.0
    for line in lines:
        if SPEED in line:
            # The batches of a phase, where a schedule changes them.
            num_updates = line["step"] - last_step
            num_sequences = num_updates * line.get("batch_size", size)
            seconds += num_sequences / statistics.median(speeds[_phase(line)])
            last_step = line["step"]
        yield {"seconds": seconds} | line


def _phase(line: dict[str, Any]) -> tuple[Any, ...]:
    names = ("batch_size", "depth", "max_seq_length", "masked_lm_prob")
    return tuple(map(line.get, names))


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
    curves = {
        str(folder): [line for line in timed_lines(folder) if LOSS in line]
        for folder in folders
    }
    for name, evaluations in curves.items():
        if not evaluations:
            parser.error(f"{name} has no evaluation; it needs --do_eval")
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
