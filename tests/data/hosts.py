"""What one host of several reads; `test_hosts.py` runs it in processes.

python -m tests.data.hosts PATTERN NUM_HOSTS INDEX OUTPUT
"""

import sys

import numpy as np

from albert_tf.data import input_pipeline, record_source
from albert_tf.data.example_order import InputShard

BATCH_SIZE = 16
NUM_STEPS, RESUMED_AT = 9, 4
REPLICAS_PER_HOST = 2


def read(pattern, shard):
    """Returns what a host reads, by name; replicas of a step are joined."""
    source = record_source.open_records(pattern)
    found = {}
    for by_files in (False, True):
        kind = "files" if by_files else "records"
        for start in (0, RESUMED_AT):
            training = input_pipeline.training_dataset(
                source,
                shard,
                global_batch_size=BATCH_SIZE,
                seed=3,
                start_example=start * BATCH_SIZE,
                by_files=by_files,
            )
            num_steps = NUM_STEPS - start
            training = training.take(num_steps * shard.replicas_per_shard)
            found[f"{kind} from {start}"] = training
        found[f"{kind} evaluated"] = input_pipeline.evaluation_dataset(
            source, shard, batch_size=BATCH_SIZE, by_files=by_files
        )
    return {
        f"{name}/{key}": values
        for name, dataset in found.items()
        for key, values in _joined(dataset, shard.replicas_per_shard).items()
    }


def _joined(dataset, replicas):
    batches = list(dataset.as_numpy_iterator())
    stacked = {key: np.stack([b[key] for b in batches]) for key in batches[0]}
    return {
        key: values.reshape(-1, replicas * values.shape[1], *values.shape[2:])
        for key, values in stacked.items()
    }


if __name__ == "__main__":
    PATTERN, NUM_HOSTS, INDEX, OUTPUT = sys.argv[1:]
    HOST = InputShard(
        num_input_shards=int(NUM_HOSTS),
        shard_index=int(INDEX),
        replicas_per_shard=REPLICAS_PER_HOST,
    )
    np.savez(OUTPUT, **read(PATTERN, HOST))
