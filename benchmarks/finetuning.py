"""Times training, prediction or latency on a GLUE file, alone or beside others.

    python benchmarks/finetuning.py --task=MRPC --file=MRPC/train.tsv \
        --spm_model_file=30k-clean.model --mode=train --precision=bfloat16 \
        --peer='other=python other_benchmark.py' --alternations=5 --json

A base model with random weights is trained for an epoch of the first
`--examples` rows by AdamW, or predicts them, in the batches that
`run_classifier.py` makes; with `--mode=latency` it predicts one row after the
other, and the rate is that of the median row. The first pass is not timed, nor
are reading and tokenization. A peer is any command whose last line is a JSON
object with `examples_per_second`; each runs in a process of its own, in turn
with ours. The last line of the output is one JSON object.
"""

import argparse
import os
import pathlib
import statistics
import sys
import time
from typing import Any

import alternation

ROOT = pathlib.Path(__file__).resolve().parents[1]


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="MRPC", help="name of a GLUE task")
    parser.add_argument("--file", required=True, help="labelled TSV of it")
    parser.add_argument("--spm_model_file", required=True)
    parser.add_argument("--mode", choices=list(TIMERS), default="train")
    parser.add_argument("--config", default="base_v2", help="published name")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--examples", type=int, default=320)
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--alternations", type=int, default=5)
    parser.add_argument(
        "--json", action="store_true", help="the JSON line only"
    )
    return parser.parse_args()


def read_records(arguments: argparse.Namespace) -> tuple[Any, int]:
    """Returns the records of the file, and the number of labels."""
    from albert_tf.data import record_columns
    from albert_tf.tasks.classification import glue
    from albert_tf.tasks.classification.data import ClassificationData
    from albert_tf.text.tokenizer import load_tokenizer

    dataset = glue.GLUE_DATASETS[arguments.task.lower()]
    split = "train" if "train" in os.path.basename(arguments.file) else "dev"
    examples = glue.read_examples(dataset, arguments.file, split)
    data = ClassificationData(
        name=dataset.name,
        labels=dataset.labels,
        score_names=dataset.score_names,
        tokenizer=load_tokenizer(spm_model_file=arguments.spm_model_file),
        max_seq_length=arguments.max_seq_length,
    )
    columns = record_columns.collect(
        data.records(examples[: arguments.examples], is_training=False),
        data.array_specs,
        max_seq_length=arguments.max_seq_length,
    )
    return columns, len(dataset.labels)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Times one pass over the records in this process."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.path.insert(0, str(ROOT))
    import tensorflow as tf

    from albert_tf import published_configs as configs
    from albert_tf.tasks.classification.model import ClassificationTask
    from albert_tf.training import record_sets
    from albert_tf.training.run_config import FinetuningConfig

    columns, num_labels = read_records(arguments)
    settings = FinetuningConfig(
        albert_config=configs.load_config(arguments.config),
        optimizer="adamw",
        precision=arguments.precision,
        train_batch_size=arguments.batch,
        do_train=True,
        max_seq_length=arguments.max_seq_length,
    )
    task = ClassificationTask(
        settings.albert_config,
        num_labels=num_labels,
        dtype=settings.dtype_policy,
    )
    strategy = tf.distribute.get_strategy()
    padding = record_sets.padding_for(settings, strategy)
    time_pass = TIMERS[arguments.mode]
    number, seconds = time_pass(settings, task, columns, padding, arguments)
    return {
        "what": f"{arguments.task} {arguments.mode}",
        "config": arguments.config,
        "precision": arguments.precision,
        "batch": 1 if arguments.mode == "latency" else arguments.batch,
        "examples": number,
        "mean_length": float(columns.lengths.mean()),
        "examples_per_second": number / seconds,
    }


def time_training(
    settings: Any, task: Any, columns: Any, padding: Any, _: Any
) -> tuple[int, float]:
    """Returns the number of examples of an epoch, and its seconds."""
    import tensorflow as tf

    from albert_tf.data import bucketed_batches
    from albert_tf.data.example_order import InputShard
    from albert_tf.training import step

    train_step = step.TrainStep(settings, task, tf.distribute.get_strategy())
    order = bucketed_batches.BucketedOrder(
        columns.lengths, batch_size=settings.train_batch_size, seed=0
    )
    batches = iter(
        bucketed_batches.training_dataset(
            columns, order, InputShard(), padding=padding
        )
    )

    def run(first: int, number: int) -> None:
        rows, _ = train_step.run(
            batches,
            tf.constant(first, tf.int64),
            tf.constant(number),
            tf.constant([step.INITIAL_LOSS_SCALE, 0.0]),
            tf.constant(settings.random_seed, tf.int64),
        )
        rows.numpy()

    num_steps = columns.num_records // settings.train_batch_size
    run(0, num_steps)  # each length is compiled when it first occurs
    start = time.perf_counter()
    run(num_steps, num_steps)
    seconds = time.perf_counter() - start
    return num_steps * settings.train_batch_size, seconds


def time_prediction(
    _: Any, task: Any, columns: Any, padding: Any, arguments: argparse.Namespace
) -> tuple[int, float]:
    """Returns the number of examples, and the seconds of predicting them."""
    from albert_tf.inference import record_outputs

    predictor = record_outputs.OutputComputer(
        task, padding, compute=task.outputs
    )
    for _ in range(2):  # the first is the warm-up
        start = time.perf_counter()
        predictor.run(columns, batch_size=arguments.batch)
        seconds = time.perf_counter() - start
    return columns.num_records, seconds


def time_latency(
    _: Any, task: Any, columns: Any, padding: Any, __: Any
) -> tuple[int, float]:
    """Returns the number of examples, and that many times their median."""
    import numpy as np
    import tensorflow as tf

    from albert_tf.data import bucketed_batches, record_columns
    from albert_tf.data.example_order import InputShard

    plan = record_columns.EvaluationPlan(
        record_columns.EvaluationBatch(
            indices=np.array([number]), num_rows=1, length=int(length)
        )
        for number, length in enumerate(columns.lengths)
    )
    dataset = bucketed_batches.evaluation_dataset(
        columns, plan, InputShard(), padding=padding
    )
    compute = tf.function(task.outputs, autograph=False)
    compute = compute.get_concrete_function(dataset.element_spec)
    batches, seconds = list(dataset), []
    for number, batch in enumerate(batches * 2):
        start = time.perf_counter()
        for values in compute(batch).values():
            values.numpy()
        if number >= len(batches):  # the first pass is the warm-up
            seconds.append(time.perf_counter() - start)
    return len(seconds), len(seconds) * statistics.median(seconds)


TIMERS = {
    "train": time_training,
    "predict": time_prediction,
    "latency": time_latency,
}

if __name__ == "__main__":
    alternation.run(parse_arguments(), measure, key="examples_per_second")
