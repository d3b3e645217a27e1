"""Times opening many shards with many records, and drawing their first order.

    python benchmarks/opening_records.py --folder=/tmp/shards \
        --num_shards=10000 --num_records=50000000

The shards are made for it and removed again: sidecars and indexes as of a real
build, but with the same tiny record all over. Each stage is timed in a process
of its own, with the files in the system's cache if they fit: opening, drawing
the order of an epoch, the first batch in that order, and the first batch with
`--read_order=files`. Memory is what the stage adds to the process: of its own
when it is done, and with the mapped files at its peak. The last line of the
output is one JSON object.
"""

import argparse
import dataclasses
import hashlib
import json
import pathlib
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from albert_tf import features
from albert_tf.data import record_files, record_index, sidecar
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.data.sidecar import BuildCounts
from albert_tf.text.special_tokens import SpecialIds

STAGES = ("open", "order", "first batch", "first batch, read_order=files")
BATCH_SIZE, SEED = 32, 12345
SEQUENCE, VOCAB_SIZE = 32, 30_000


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--num_shards", type=int, default=10_000)
    parser.add_argument("--num_records", type=int, default=50_000_000)
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    return parser.parse_args()


def make_shards(
    folder: pathlib.Path, num_shards: int, num_records: int
) -> None:
    """Writes the shards."""
    number = num_records // num_shards
    tokens = np.arange(5, 10, dtype=np.int32)
    (record,) = record_files.encode_examples(
        features.dynamic_pretraining_features(token_boundary=True),
        {
            "pair_ids": tokens[None],
            "token_boundary": np.ones((1, 5), np.int32),
            "segment_a_length": np.array([[3]]),
            "pair_label": np.array([[0]]),
        },
    )
    framed = record_files.frame_records([record] * number)
    facts = sidecar.Sidecar(
        config=PretrainingDataConfig(
            masking="dynamic", max_seq_length=SEQUENCE
        ),
        corpus_files=[[f"part-{i:05}.jsonl.gz", 10**8] for i in range(10)],
        num_corpus_files=num_shards,
        corpus_sha256="0" * 64,
        blocks=[0, 1],
        tokenizer_hash="0" * 64,
        vocab_size=VOCAB_SIZE,
        special_ids=SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4),
        forbidden_ids=list(range(5)),
        counts=BuildCounts(records=number),
        num_bytes=len(framed),
    )
    names = [f"train-{i:05}-of-{num_shards:05}" for i in range(num_shards)]
    first = folder / names[0]
    first.write_bytes(framed)
    digest = hashlib.sha256(b"").hexdigest()
    with record_index.index_writer(first) as index:
        index.add(framed)
        index.finish(digest)
    sidecar.write(first, dataclasses.replace(facts, sha256=digest))
    index_bytes = pathlib.Path(f"{first}.index").read_bytes()
    sidecar_text = pathlib.Path(f"{first}.json").read_text()
    for name in names:
        # They have other digests, as if their records were others.
        other = hashlib.sha256(name.encode()).hexdigest()
        (folder / name).write_bytes(framed)
        (folder / f"{name}.index").write_bytes(
            index_bytes.replace(bytes.fromhex(digest), bytes.fromhex(other))
        )
        (folder / f"{name}.json").write_text(
            sidecar_text.replace(digest, other)
        )


def resident() -> int:
    """Returns the bytes of memory that the process has of its own."""
    text = pathlib.Path("/proc/self/smaps_rollup").read_text()
    fields = dict(line.split(":") for line in text.splitlines()[1:])
    return 1024 * int(fields["Anonymous"].split()[0])


def measure(work: Callable[[], Any]) -> dict[str, float]:
    """Returns the seconds and the memory of some work, whose result is kept."""
    before, start, cpu = resident(), time.perf_counter(), time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = work()
    times = {
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - cpu,
    }
    higher = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    kept = resident() - before
    del result
    return times | {"bytes": kept, "peak_bytes": 1024 * higher}


def run_stage(stage: str, pattern: str) -> dict[str, float]:
    """Measures a stage; what comes before it is done first."""
    from albert_tf.data import example_order, input_pipeline, record_source

    if stage == "open":
        return measure(lambda: record_source.open_records(pattern))
    source = record_source.open_records(pattern)
    if stage == "order":
        order = example_order.TrainingOrder(source.num_records, SEED)
        return measure(lambda: order(np.arange(BATCH_SIZE)))

    def first_batch() -> Any:
        batches = input_pipeline.training_dataset(
            source,
            example_order.InputShard(),
            global_batch_size=BATCH_SIZE,
            seed=SEED,
            by_files=stage.endswith("files"),
        )
        iterator = iter(batches)
        return iterator, next(iterator)

    return measure(first_batch)


def main() -> None:
    """Makes the shards, measures each stage, removes the shards."""
    arguments = parse_arguments()
    pattern = f"{arguments.folder}/train@{arguments.num_shards}"
    if arguments.stage:
        print(json.dumps(run_stage(arguments.stage, pattern)))
        return
    arguments.folder.mkdir()  # One that exists would be removed.
    try:
        make_shards(
            arguments.folder, arguments.num_shards, arguments.num_records
        )
        results = {}
        for stage in STAGES:
            output = subprocess.run(
                [sys.executable, *sys.argv, f"--stage={stage}"],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            found = results[stage] = json.loads(output.splitlines()[-1])
            for name in ("bytes", "peak_bytes"):
                found[f"{name}_a_record"] = found[name] / arguments.num_records
            print(
                f"{stage:<30} {found['seconds']:6.1f} s"
                f" ({found['processor_seconds']:.1f} of the processor)"
                f" {found['bytes'] / 2**20:8.0f} MiB kept"
                f" {found['peak_bytes'] / 2**20:8.0f} MiB more at the peak"
                f" ({found['peak_bytes_a_record']:.1f} bytes a record)",
                flush=True,
            )
    finally:
        shutil.rmtree(arguments.folder)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
