"""Writes the tables of docs/scaling.md, which the planner's formulas give.

python benchmarks/scaling_tables.py
"""

import math
import pathlib
import sys
from collections.abc import Iterable, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import planner  # noqa: E402

from albert_tf import config as configs  # noqa: E402

PAGE = ROOT / "docs" / "scaling.md"
MODELS = ("base_v2", "large_v2", "xlarge_v2", "xxlarge_v2")
NUM_DEVICES = (1, 8, 64, 256, 1024)
DEVICE = "a100-40"
# The price of an hour of a device, of so many devices.
PRICE, NUM_PRICED = 2, 64
# Those of the paper.
LENGTH, BATCH, NUM_STEPS = 512, 4096, 125_000
# Batches with the rates and the shares of warm-up that You et al. 2020 found
# for LAMB: the rate grows with the root of the batch.
LARGEST_BATCH, LARGEST_RATE, LARGEST_WARM_UP = 32768, 5e-3, 1 / 5
BATCHES = (512, 1024, 2048, 4096, 8192, 16384, 32768)
GIGABYTE = 1e9
CORPORA = {"16 GB": 16, "160 GB": 160, "1 TB": 1000, "10 TB": 10_000}
# Measured, see the page.
TOKENS_A_SECOND = 1.1e6
CHARACTERS_A_TOKEN = 4.3
BYTES_A_TOKEN = 2.9
TOKENS_A_RECORD = 271


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table in Markdown, whose first column is text."""
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def devices_table() -> str:
    """Returns hours, the share of adding up gradients, and a price."""
    device = planner.DEVICES[DEVICE]
    rows = []
    for name in MODELS:
        cells = [name]
        for num_devices in NUM_DEVICES:
            found = planner.plan(
                configs.published_config(name),
                device,
                length=LENGTH,
                batch=BATCH,
                num_devices=num_devices,
                recompute=name == "xxlarge_v2",
            )
            hours = found.seconds * NUM_STEPS / 3600
            share = found.all_reduce / found.seconds
            cells.append(f"{hours:,.0f} h ({share:.1%})")
            if num_devices == NUM_PRICED:
                price = f"{hours * num_devices * PRICE:,.0f}"
        rows.append([*cells, price])
    header = ["model", *map(str, NUM_DEVICES), f"price of {NUM_PRICED}"]
    return table(header, rows)


def batches_table() -> str:
    """Returns rates and warm-up by batch."""
    rows = []
    for batch in BATCHES:
        part = batch / LARGEST_BATCH
        rate = LARGEST_RATE * math.sqrt(part)
        rows.append(
            [
                f"{batch:,}",
                f"{rate:.5f}",
                f"1/{round(1 / (LARGEST_WARM_UP * part))}",
            ]
        )
    return table(["batch", "learning rate", "warm-up"], rows)


def corpora_table() -> str:
    """Returns what corpora take to build and to keep, and how often read."""
    read = BATCH * NUM_STEPS * LENGTH
    rows = []
    for name, gigabytes in CORPORA.items():
        tokens = gigabytes * GIGABYTE / CHARACTERS_A_TOKEN
        hours = tokens / TOKENS_A_SECOND / 3600
        rows.append(
            [
                name,
                f"{tokens / 1e9:,.0f} billion",
                f"{hours:,.1f}",
                f"{tokens * BYTES_A_TOKEN / GIGABYTE:,.0f} GB",
                f"{tokens / TOKENS_A_RECORD / 1e6:,.0f} million",
                f"{read / tokens:,.2f}",
            ]
        )
    header = (
        *("text", "tokens", "core hours", "records take", "records"),
        "read in the paper's run, times",
    )
    return table(header, rows)


TABLES = {
    "devices": devices_table,
    "batches": batches_table,
    "corpora": corpora_table,
}


def page_with_tables(content: str) -> str:
    """Returns a page whose tables are replaced."""
    for name, make in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        before, found, rest = content.partition(begin)
        _, found_end, after = rest.partition(end)
        if not found or not found_end:
            raise ValueError(f"{PAGE} does not have {begin.strip()} and {end}")
        content = before + begin + make() + end + after
    return content


def main() -> None:
    """Replaces the tables of docs/scaling.md."""
    PAGE.write_text(page_with_tables(PAGE.read_text()))


if __name__ == "__main__":
    main()
