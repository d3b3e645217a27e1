"""Measures create_pretraining_data.py with texts of several sizes.

    python benchmarks/data_scaling.py --input_file='corpus/*.txt' \
        --spm_model_file=30k-clean.model --megabytes=250,500,1000

The text is made of the documents of the corpus: repeated, in another order in
each copy, with a word of every third sentence replaced by a random one. It is
written to files of 32 MB, of which each size takes the first ones, and removed
in the end. For each size: processor time (user and system, of all processes),
wall time, and the largest memory of each process. Then the exponents of both
times as powers of the size. The last line of the output is one JSON object.
"""

import argparse
import glob
import json
import math
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILE_SIZE = 32_000_000
MEGABYTE = 10**6
SECONDS_BETWEEN_LOOKS = 0.2
NUM_SHARDS = 16
PERTURBED_SHARE = 1 / 3


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input_file", required=True, help="glob of texts")
    parser.add_argument("--spm_model_file", required=True)
    parser.add_argument("--megabytes", default="250,500,1000,2000")
    parser.add_argument("--num_workers", type=int, default=2)
    parser.add_argument("--masking", default="dynamic")
    parser.add_argument("--runner", default="local")
    parser.add_argument(
        "--python", default=sys.executable, help="one with Beam, for --runner"
    )
    parser.add_argument("--folder", help="for the texts; default: temporary")
    return parser.parse_args()


def write_corpus(
    pattern: str, folder: pathlib.Path, size: int
) -> list[pathlib.Path]:
    """Writes a text of this size; returns its files."""
    texts = [
        pathlib.Path(name).read_text() for name in sorted(glob.glob(pattern))
    ]
    documents = [
        document.split("\n")
        for text in texts
        for document in re.split(r"\n\s*\n", text.strip())
    ]
    words = " ".join(texts).split()
    rng = random.Random(0)
    paths = []
    copies = _copies(documents, words, rng)
    for number in range(math.ceil(size / FILE_SIZE)):
        path = folder / f"text-{number:03}.txt"
        paths.append(path)
        left = min(FILE_SIZE, size - number * FILE_SIZE)
        with path.open("w", encoding="utf-8") as file:
            while left > 0:
                left -= len(document := next(copies))
                file.write(document)
    return paths


def _copies(
    documents: list[list[str]], words: list[str], rng: random.Random
) -> Any:
    """Yields perturbed documents for ever."""
    while True:
        rng.shuffle(documents)
        for document in documents:
            yield (
                "\n".join(
                    _perturb(sentence, words, rng) for sentence in document
                )
                + "\n\n"
            )


def _perturb(sentence: str, words: list[str], rng: random.Random) -> str:
    if rng.random() > PERTURBED_SHARE:
        return sentence
    found = sentence.split(" ")
    found[int(rng.random() * len(found))] = words[
        int(rng.random() * len(words))
    ]
    return " ".join(found)


def build(
    arguments: argparse.Namespace,
    paths: list[pathlib.Path],
    folder: pathlib.Path,
) -> dict[str, Any]:
    """Builds records of these files; returns what it took."""
    records = folder / "records"
    started = time.monotonic()
    command = subprocess.Popen(
        [
            arguments.python,
            str(ROOT / "create_pretraining_data.py"),
            f"--input_file={','.join(map(str, paths))}",
            f"--output_file={records}/train@{NUM_SHARDS}",
            f"--spm_model_file={arguments.spm_model_file}",
            f"--num_workers={arguments.num_workers}",
            f"--masking={arguments.masking}",
            f"--runner={arguments.runner}",
        ],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    peaks: dict[int, int] = {}
    looks = threading.Thread(target=_watch, args=(command, peaks))
    looks.start()
    output = command.stdout.read() if command.stdout else ""
    _, status, usage = os.wait4(command.pid, 0)
    command.returncode = os.waitstatus_to_exitcode(status)
    looks.join()
    if command.returncode:
        sys.exit("error: the build failed")
    shutil.rmtree(records)
    tokens = re.search(r"^tokens +([\d,]+)$", output, re.M)
    num_tokens = int(tokens[1].replace(",", "")) if tokens else 0
    processor = usage.ru_utime + usage.ru_stime
    seconds = time.monotonic() - started
    return {
        "megabytes": sum(map(os.path.getsize, paths)) // MEGABYTE,
        "tokens": num_tokens,
        "processor_seconds": round(processor, 1),
        "seconds": round(seconds, 1),
        "tokens_per_processor_second": round(num_tokens / processor),
        "tokens_per_second": round(num_tokens / seconds),
        # The command, its workers, and Python's tracker of semaphores.
        "peak_mib": [peaks[pid] // 1024 for pid in sorted(peaks)],
    }


def _watch(command: "subprocess.Popen[str]", peaks: dict[int, int]) -> None:
    """Records the peak KiB of each process of a session until it ends."""
    while True:
        found = subprocess.run(
            ["ps", "-o", "pid=", "-s", str(command.pid)],
            capture_output=True,
            text=True,
        ).stdout.split()
        alive = 0
        for pid in map(int, found):
            if peak := _peak(pid):
                peaks[pid] = peak
                alive += 1
        if not alive:
            return
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _peak(pid: int) -> int:
    """Returns the peak KiB of a process; 0 if it has ended."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.M)
    return int(found[1]) if found else 0


def exponent(sizes: list[float], seconds: list[float]) -> float:
    """Returns the power of the size that fits the times best."""
    x, y = [*map(math.log, sizes)], [*map(math.log, seconds)]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum(
        (a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)
    )
    return covariance / sum((a - mean_x) ** 2 for a in x)


def main() -> None:
    """Measures, and prints."""
    arguments = parse_arguments()
    sizes = sorted(map(int, arguments.megabytes.split(",")))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = pathlib.Path(name)
        paths = write_corpus(arguments.input_file, folder, sizes[-1] * MEGABYTE)
        found = []
        for size in sizes:
            num_files = round(size * MEGABYTE / FILE_SIZE)
            found.append(build(arguments, paths[:num_files], folder))
            print(json.dumps(found[-1]), flush=True)
    megabytes = [one["megabytes"] for one in found]
    exponents = (
        {}
        if len(found) == 1
        else {
            f"exponent_of_{name}": round(
                exponent(megabytes, [one[name] for one in found]), 3
            )
            for name in ("processor_seconds", "seconds")
        }
    )
    print(json.dumps({"sizes": found, **exponents}))


if __name__ == "__main__":
    main()
