"""Runs programs in turn and compares what they print."""

import json
import shlex
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

OURS = "albert_tf"


def compare(
    own: Sequence[str],
    peers: Sequence[str],
    *,
    key: str,
    alternations: int,
    is_quiet: bool,
) -> dict[str, Any]:
    """Runs ourselves and the peers in turn; returns medians and ratios.

    Args:
        own: Our command.
        peers: `NAME=COMMAND` of each peer. The last line that a command prints
            is a JSON object.
        key: What is compared, by its name in these objects; more is better.
        alternations: How often each command runs.
        is_quiet: Whether single figures are not printed.

    Returns:
        Our last object, with the median of `key`; the median of each peer, and
        the median of the pairwise ratios to it.
    """
    commands = {OURS: list(own)}
    for peer in peers:
        name, _, command = peer.partition("=")
        commands[name] = shlex.split(command)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in commands}
    for number in range(1, alternations + 1):
        for name, command in commands.items():
            results[name].append(_run(command))
            if not is_quiet:
                print(f"{number} {name:12} {results[name][-1][key]:9.1f} {key}")
    figures = {
        name: [result[key] for result in found]
        for name, found in results.items()
    }
    summary = results[OURS][-1] | {
        key: statistics.median(figures[OURS]),
        "alternations": alternations,
    }
    for name in list(commands)[1:]:
        ratios = [
            ours / theirs
            for ours, theirs in zip(figures[OURS], figures[name], strict=True)
        ]
        summary[f"{name}_{key}"] = statistics.median(figures[name])
        summary[f"ratio_to_{name}"] = statistics.median(ratios)
        summary[f"ratios_to_{name}"] = [round(ratio, 3) for ratio in ratios]
    return summary


def _run(command: Sequence[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        sys.exit(f"error: {shlex.join(command)} failed: {last}")
    return json.loads(done.stdout.strip().splitlines()[-1])
