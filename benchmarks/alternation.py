"""Times a benchmark alone, or in turn with other programs."""

import argparse
import json
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

OURS = "albert_tf"


def run(
    arguments: argparse.Namespace,
    measure: Callable[[argparse.Namespace], dict[str, Any]],
    *,
    key: str,
) -> None:
    """Measures ourselves, beside the peers if there are any, and prints.

    Args:
        arguments: Those of this program; of all, `peer`, `alternations` and
            `json` are used here.
        measure: Returns the figures of one run in this process.
        key: What is compared, by its name in these figures; more is better.
    """
    result = _compare(arguments, key) if arguments.peer else measure(arguments)
    result |= {"unit": key, "machine": machine()}
    if not arguments.json:
        for name, value in result.items():
            print(f"{name:24} {value}")
    print(json.dumps(result))


def machine() -> str:
    """Returns the processor of this machine, and how many cores are used."""
    cores = len(os.sched_getaffinity(0))
    name = platform.processor() or platform.machine()
    about = pathlib.Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    about_first = {}
    for line in reversed(lines):
        field, _, value = line.partition(":")
        about_first[field.strip()] = value.strip()
    name = about_first.get("model name", name)
    # Several generations of processors have the same name.
    if "cpu family" in about_first:
        name += ", family {cpu family}, model {model}".format(**about_first)
    flags = {word for line in lines for word in line.split()}
    parts = [one for one in ("avx512_bf16", "amx_bf16") if one in flags]
    return ", ".join([name, *parts, f"{cores} cores"])


def _compare(arguments: argparse.Namespace, key: str) -> dict[str, Any]:
    """Runs ourselves and the peers in turn; returns medians and ratios."""
    own = [sys.executable, sys.argv[0], "--json"]
    for name, value in vars(arguments).items():
        if name not in ("peer", "json") and value not in (None, False):
            own.append(f"--{name}" if value is True else f"--{name}={value}")
    commands = {OURS: own}
    for peer in arguments.peer:
        name, _, command = peer.partition("=")
        commands[name] = shlex.split(command)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in commands}
    for number in range(1, arguments.alternations + 1):
        for name, command in commands.items():
            results[name].append(_run(command))
            if not arguments.json:
                print(f"{number} {name:12} {results[name][-1][key]:9.1f} {key}")
    figures = {
        name: [result[key] for result in found]
        for name, found in results.items()
    }
    summary = results[OURS][-1] | {
        key: statistics.median(figures[OURS]),
        "alternations": arguments.alternations,
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
