"""Times create_pretraining_data.py beside the bare SentencePiece encoder.

    python benchmarks/data_building.py --input_file='corpus/*.txt' \
        --spm_model_file=30k-clean.model --megabytes=100

The text is repeated until it has the size asked for. Every figure is of a whole
process on one core: bare `SentencePieceProcessor.encode` of the lines, the
build with dynamic masks, the build with static masks and five copies; in turn,
`--alternations` times, medians. Tokens a second are of the corpus for the
first two, of what is written (corpus times copies) for the third. Then the
peak memory of a build of the corpus and of ten copies of it. The last line of
the output is one JSON object.
"""

import argparse
import glob
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
COPIES = 5

BARE_ENCODE = """
import itertools, sys
from sentencepiece import SentencePieceProcessor
processor = SentencePieceProcessor(model_file=sys.argv[1])
tokens = 0
with open(sys.argv[2], encoding="utf-8") as file:
    while lines := list(itertools.islice(file, 4096)):
        tokens += sum(map(len, processor.encode(lines, num_threads=1)))
print(tokens)
"""


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input_file", required=True, help="glob of texts")
    parser.add_argument("--spm_model_file", required=True)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--max_seq_length", type=int, default=512)
    parser.add_argument("--max_predictions_per_seq", type=int, default=20)
    parser.add_argument("--alternations", type=int, default=5)
    return parser.parse_args()


def write_corpus(pattern: str, path: pathlib.Path, num_copies: int) -> None:
    """Writes the texts, `num_copies` times over."""
    with path.open("wb") as file:
        for _ in range(num_copies):
            for name in sorted(glob.glob(pattern)):
                file.write(pathlib.Path(name).read_bytes().rstrip() + b"\n\n")


def run_on_one_core(command: list[str]) -> tuple[float, str]:
    """Runs a command; returns seconds and its output."""
    core = min(os.sched_getaffinity(0))
    start = time.perf_counter()
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        check=False,
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"error: {command[0]} failed")
    return seconds, done.stdout


def build_command(
    arguments: argparse.Namespace, corpus: pathlib.Path, *extra: str
) -> list[str]:
    """Returns the command that builds records of `corpus` beside it."""
    records = corpus.with_suffix(".tf_record")
    for end in ("", ".json", ".index"):
        pathlib.Path(f"{records}{end}").unlink(missing_ok=True)
    return [
        sys.executable,
        str(ROOT / "create_pretraining_data.py"),
        f"--input_file={corpus}",
        f"--output_file={records}",
        f"--spm_model_file={arguments.spm_model_file}",
        f"--max_seq_length={arguments.max_seq_length}",
        f"--max_predictions_per_seq={arguments.max_predictions_per_seq}",
        *extra,
    ]


def measure(
    arguments: argparse.Namespace, corpus: pathlib.Path
) -> dict[str, Any]:
    """Times the three programs in turn."""
    bare = [
        sys.executable,
        "-c",
        BARE_ENCODE,
        arguments.spm_model_file,
        str(corpus),
    ]
    num_copies = {"dynamic": 1, "static": COPIES}
    bare_speeds: list[float] = []
    speeds: dict[str, list[float]] = {kind: [] for kind in num_copies}
    for _ in range(arguments.alternations):
        seconds, output = run_on_one_core(bare)
        tokens = int(output)
        bare_speeds.append(tokens / seconds)
        for kind, copies in num_copies.items():
            flags = [f"--masking={kind}", f"--dupe_factor={copies}"]
            command = build_command(arguments, corpus, *flags)
            seconds, _ = run_on_one_core(command)
            speeds[kind].append(copies * tokens / seconds)
    median = statistics.median
    result = {
        "tokens": tokens,
        "bare_tokens_per_second": round(median(bare_speeds)),
    }
    for kind, own in speeds.items():
        ratios = [a / b for a, b in zip(own, bare_speeds, strict=True)]
        result[f"{kind}_tokens_per_second"] = round(median(own))
        result[f"{kind}_share_of_bare"] = round(median(ratios), 3)
    return result


def peak_memory(
    arguments: argparse.Namespace, folder: pathlib.Path, num_copies: int
) -> int:
    """Returns the peak MiB of a dynamic build of copies of the corpus."""
    corpus = folder / f"copies-{num_copies}.txt"
    write_corpus(arguments.input_file, corpus, num_copies)
    command = build_command(arguments, corpus, "--masking=dynamic")
    # In a process of its own: the peak of children is that of the largest.
    code = (
        "import subprocess, resource, sys; "
        "subprocess.run(sys.argv[1:], check=True, stdout=2); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout) // 1024


def main() -> None:
    """Measures, and prints."""
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        corpus = folder / "corpus.txt"
        size = sum(map(os.path.getsize, glob.glob(arguments.input_file)))
        num_copies = math.ceil(arguments.megabytes * 10**6 / size)
        write_corpus(arguments.input_file, corpus, num_copies)
        result = measure(arguments, corpus)
        result["peak_mib"] = peak_memory(arguments, folder, 1)
        result["peak_mib_ten_copies"] = peak_memory(arguments, folder, 10)
    for key, value in result.items():
        print(f"{key:28} {value}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
