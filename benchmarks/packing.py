"""Times pretraining steps on records, with and without `--pack`, in turn.

    python benchmarks/packing.py --input_file=records/train --batch=16

Both take the same sequences in every step. What is counted are tokens without
padding. Every batch is taken twice, and the second time counts: in the first,
parts of the step are compiled where the number of packed rows is a new one. The
last line of the output is one JSON object.
"""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

import alternation

ROOT = pathlib.Path(__file__).resolve().parents[1]
UNIT = "real_tokens_per_second"


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input_file", required=True, help="record files")
    parser.add_argument("--config", default="base_v2", help="published name")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--steps", type=int, default=10, help="of each kind")
    return parser.parse_args()


def main() -> None:
    """Prints the medians and their ratio."""
    arguments = parse_arguments()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.path.insert(0, str(ROOT))
    from albert_tf.data import record_source

    source = record_source.open_records(arguments.input_file)
    runs = {
        name: steps(arguments, source, num_packed)
        for name, num_packed in (("padded", 0), ("packed", 1))
    }
    timed: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(arguments.steps):
        for name, run in runs.items():
            next(run)
            timed[name].append(next(run))
    speeds = {
        name: statistics.median(tokens / seconds for seconds, tokens in pairs)
        for name, pairs in timed.items()
    }
    ratios = [
        padded / packed
        for (padded, _), (packed, _) in zip(
            timed["padded"], timed["packed"], strict=True
        )
    ]
    num_places = arguments.batch * source.shard.settings.max_seq_length
    num_tokens = [tokens for _, tokens in timed["padded"]]
    share = statistics.mean(num_tokens) / num_places
    result = {
        "what": "packed pretraining step",
        "config": arguments.config,
        "precision": arguments.precision,
        "batch": arguments.batch,
        "length": source.shard.settings.max_seq_length,
        "unit": UNIT,
        "machine": alternation.machine(),
        "share_of_real_tokens": share,
        UNIT: speeds["packed"],
        f"padded_{UNIT}": speeds["padded"],
        "ratio_to_padded": statistics.median(ratios),
        "ratios_to_padded": [round(ratio, 3) for ratio in ratios],
        "ratio_of_possible": statistics.median(
            ratio * tokens / num_places
            for ratio, tokens in zip(ratios, num_tokens, strict=True)
        ),
    }
    print(json.dumps(result))


def steps(
    arguments: argparse.Namespace, source: Any, num_packed: int
) -> Iterator[tuple[float, float]]:
    """Yields the seconds of each step, and its tokens without padding."""
    import tensorflow as tf

    from albert_tf import published_configs as configs
    from albert_tf.data import example_order, input_pipeline
    from albert_tf.tasks.pretraining.objectives import PretrainingTask
    from albert_tf.training import run_config, step

    config = configs.load_config(arguments.config)
    settings = run_config.RunConfig(
        albert_config=config, optimizer="lamb", precision=arguments.precision
    )
    task = PretrainingTask(config, dtype=settings.dtype_policy)
    train_step = step.TrainStep(settings, task, tf.distribute.get_strategy())
    batches = iter(
        input_pipeline.training_dataset(
            source,
            example_order.InputShard(),
            global_batch_size=arguments.batch,
            seed=0,
            num_packed=num_packed,
        ).flat_map(lambda batch: tf.data.Dataset.from_tensors(batch).repeat(2))
    )
    column = train_step.result_names.index("tokens")
    for number in itertools.count():
        start = time.perf_counter()
        rows, _ = train_step.run(
            batches,
            tf.constant(number, tf.int64),
            tf.constant(1),
            tf.constant([step.INITIAL_LOSS_SCALE, 0.0]),
            tf.constant(settings.random_seed, tf.int64),
        )
        tokens = float(rows.numpy()[0, column])
        yield time.perf_counter() - start, tokens


if __name__ == "__main__":
    main()
