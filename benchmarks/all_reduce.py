"""Times how long workers take to add up gradients, over the loopback.

    python benchmarks/all_reduce.py --num_workers=2 --json

Each worker is a process of MultiWorkerMirroredStrategy on this machine, and
adds up as many float32 values as a model has parameters. The last line of the
output is one JSON object: medians, and the bytes/s of a ring.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import planner  # noqa: E402

from albert_tf import config as configs  # noqa: E402


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num_workers", type=int, default=2)
    parser.add_argument(
        "--configs", default="base_v2,xlarge_v2", help="published names"
    )
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="that line only")
    return parser.parse_args()


def free_port() -> int:
    """Returns a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return int(listener.getsockname()[1])


def time_worker(sizes: list[int], repeats: int) -> list[float]:
    """Returns the median time of each size, in one worker."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def add_up(values: tf.Tensor) -> tf.Tensor:
        def replica() -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            return context.all_reduce(
                tf.distribute.ReduceOp.SUM, tf.identity(values)
            )

        return strategy.run(replica)

    medians = []
    for size in sizes:
        values = tf.ones([size])
        seconds = []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            total = add_up(values)[0].numpy()
            seconds.append(time.perf_counter() - start)
            if total != strategy.num_replicas_in_sync:
                raise ValueError(f"{total} is not the number of workers")
        medians.append(statistics.median(seconds[1:]))
    return medians


def main() -> None:
    """Starts the workers, or is one of them."""
    arguments = parse_arguments()
    names = arguments.configs.split(",")
    sizes = [
        planner.num_parameters(configs.published_config(name)) for name in names
    ]
    if "TF_CONFIG" in os.environ:
        print(json.dumps(time_worker(sizes, arguments.repeats)))
        return
    addresses = [
        f"localhost:{free_port()}" for _ in range(arguments.num_workers)
    ]
    workers = []
    for index in range(arguments.num_workers):
        cluster = {
            "cluster": {"worker": addresses},
            "task": {"type": "worker", "index": index},
        }
        environment = os.environ | {
            "TF_CONFIG": json.dumps(cluster),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        workers.append(
            subprocess.Popen(
                [sys.executable, *sys.argv],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=None if index == 0 else subprocess.DEVNULL,
                text=True,
            )
        )
    outputs = [worker.communicate()[0] for worker in workers]
    if any(worker.returncode for worker in workers):
        sys.exit("error: a worker failed")
    medians = json.loads(outputs[0].splitlines()[-1])
    passes = 2 * (arguments.num_workers - 1) / arguments.num_workers
    result: dict[str, object] = {"num_workers": arguments.num_workers}
    for name, size, seconds in zip(names, sizes, medians, strict=True):
        num_bytes = passes * planner.BYTES_A_WEIGHT * size
        result[f"{name}_seconds"] = round(seconds, 4)
        result[f"{name}_bytes_per_second"] = round(num_bytes / seconds)
        if not arguments.json:
            print(f"{name}: {size:,} values in {seconds:.3f} s")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
