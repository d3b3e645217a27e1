"""Times the whole pretraining step, alone or in turn with other programs.

    python benchmarks/training.py --precision=bfloat16 --batch=8 --length=128 \
        --peer='other=python other_benchmark.py' --alternations=5 --json

A step is forward, backward, clipping and LAMB, with both objectives, on
batches of random tokens without padding. A peer is any command whose last
line is a JSON object with `tokens_per_second`; each runs in a process of its
own, in turn with ours, and the medians and the median of the pairwise ratios
are printed. The last line of the output is one JSON object.
"""

import argparse
import dataclasses
import os
import pathlib
import resource
import statistics
import sys
import time
from typing import Any

import alternation

ROOT = pathlib.Path(__file__).resolve().parents[1]


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="base_v2", help="published name")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--predictions", type=int, default=20)
    parser.add_argument("--attention_window", type=int, default=0)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--optimizer", default="lamb")
    parser.add_argument("--jit", action="store_true", help="compile with XLA")
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--steps", type=int, default=8, help="timed steps")
    parser.add_argument(
        "--warm_up_steps", type=int, default=3, help="steps before them"
    )
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="program to run in turn with this one; may be repeated",
    )
    parser.add_argument("--alternations", type=int, default=5)
    parser.add_argument(
        "--json", action="store_true", help="print the JSON line only"
    )
    return parser.parse_args()


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Times steps in this process."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.path.insert(0, str(ROOT))
    import numpy as np
    import tensorflow as tf

    from albert_tf import published_configs as configs
    from albert_tf.tasks.pretraining.objectives import PretrainingTask
    from albert_tf.training import run_config, step

    config = configs.load_config(arguments.config)
    config = dataclasses.replace(
        config,
        attention_window=arguments.attention_window,
        max_position_embeddings=max(
            arguments.length, config.max_position_embeddings
        ),
    )
    settings = run_config.RunConfig(
        albert_config=config,
        optimizer=arguments.optimizer,
        precision=arguments.precision,
        jit_compile=arguments.jit,
        recompute=arguments.recompute,
    )
    task = PretrainingTask(config, dtype=settings.dtype_policy)
    strategy = tf.distribute.get_strategy()
    train_step = step.TrainStep(settings, task, strategy)
    batch = _random_batch(np.random.default_rng(0), arguments, config)
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat())
    seconds = []
    for number in range(arguments.warm_up_steps + arguments.steps):
        start = time.perf_counter()
        rows, _ = train_step.run(
            batches,
            tf.constant(number, tf.int64),
            tf.constant(1),
            tf.constant([step.INITIAL_LOSS_SCALE, 0.0]),
            tf.constant(settings.random_seed, tf.int64),
        )
        rows.numpy()
        seconds.append(time.perf_counter() - start)
    step_seconds = statistics.median(seconds[arguments.warm_up_steps :])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "what": "pretraining step",
        "config": arguments.config,
        "precision": arguments.precision,
        "jit": arguments.jit,
        "recompute": arguments.recompute,
        "batch": arguments.batch,
        "length": arguments.length,
        "attention_window": arguments.attention_window,
        "step_seconds": step_seconds,
        "sequences_per_second": arguments.batch / step_seconds,
        "tokens_per_second": arguments.batch * arguments.length / step_seconds,
        "peak_memory_mib": round(peak),
    }


def _random_batch(
    rng: Any, arguments: argparse.Namespace, config: Any
) -> dict[str, Any]:
    import numpy as np

    shape = (arguments.batch, arguments.length)
    slots = (arguments.batch, arguments.predictions)
    first_word = 5  # after the special tokens
    ids = rng.integers(first_word, config.vocab_size, shape, dtype=np.int32)
    half = np.arange(arguments.length) >= arguments.length // 2
    return {
        "input_ids": ids,
        "input_mask": np.ones(shape, np.int32),
        "segment_ids": np.broadcast_to(half.astype(np.int32), shape),
        "masked_lm_positions": rng.integers(
            1, arguments.length, slots, dtype=np.int32
        ),
        "masked_lm_ids": rng.integers(
            first_word, config.vocab_size, slots, dtype=np.int32
        ),
        "masked_lm_weights": np.ones(slots, np.float32),
        "sentence_order_labels": rng.integers(
            0, 2, arguments.batch, dtype=np.int32
        ),
    }


if __name__ == "__main__":
    alternation.run(parse_arguments(), measure, key="tokens_per_second")
