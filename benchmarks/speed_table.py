"""Writes the table of speeds in docs/results.md from kept results.

    python benchmarks/training.py ... --json > benchmarks/results/step_128.json
    python benchmarks/speed_table.py

Each file of `benchmarks/results` has the last line of a benchmark's output. The
table has a row for each peer that was timed in turn: the median of both, the
median, least and largest ratio of the alternations, and the processor.
"""

import json
import pathlib
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "results.md"
BEGIN, END = "<!-- speeds -->\n", "<!-- end of speeds -->\n"
HEADER = """\
| what | beside | ours | theirs | ratio (least to largest) | on |
|---|---|--:|--:|---|---|
"""
DESCRIBED_BY = ("config", "precision", "batch", "length")


def rows_of(result: dict[str, Any]) -> list[str]:
    """Returns the rows of one benchmark, one for each peer."""
    key = result["unit"]
    unit = key.replace("_per_second", "/s").replace("_", " ")
    what = ", ".join(
        [result["what"]]
        + [f"{name} {result[name]}" for name in DESCRIBED_BY if name in result]
    )
    rows = []
    for name, ratios in result.items():
        peer = name.removeprefix("ratios_to_")
        if peer == name:
            continue
        theirs = result[f"{peer}_{key}"]
        rows.append(
            f"| {what} | {peer.replace('_', ' ')} | {result[key]:.4g} {unit} "
            f"| {theirs:.4g} | {result[f'ratio_to_{peer}']:.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f}) "
            f"| {processor(result['machine'])} |\n"
        )
    return rows


def processor(machine: str) -> str:
    """Returns the name for short of a machine of `alternation.machine`."""
    name = "EPYC" if "EPYC" in machine else machine.split("(")[0]
    return f"{name} with AMX" if "amx" in machine else name


def table() -> str:
    """Returns the table of all kept results."""
    results = [
        json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))
    ]
    machines = sorted({result["machine"] for result in results})
    rows = "".join(row for result in results for row in rows_of(result))
    return f"{HEADER}{rows}\n({'; '.join(machines)}.)\n"


def page_with(content: str, speeds: str) -> str:
    """Returns a page whose table is replaced."""
    before, _, rest = content.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{PAGE} does not have {BEGIN.strip()} and {END}")
    return before + BEGIN + speeds + END + after


def main() -> None:
    """Replaces the table of docs/results.md."""
    PAGE.write_text(page_with(PAGE.read_text(), table()))


if __name__ == "__main__":
    main()
