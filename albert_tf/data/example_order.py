"""Which examples a training step takes: a pure function of seed and step.

Floor: data. NumPy.

The examples of training are an endless stream: those of epoch 0 in one
permutation of the whole data set, then those of epoch 1 in another, and so on.
Step t takes the t-th global batch of that stream, which may reach over an
epoch's end. So the step is all that a resumed run needs to know, and it gets
there at once.
"""

import dataclasses
import functools
import threading
from collections.abc import Callable

import numpy as np

# Places in the stream of examples -> epoch and example index of each.
Order = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Share:
    """The part of each global batch that one input pipeline delivers.

    Args:
        global_batch_size: B.
        num_input_shards: How many pipelines share each batch.
        shard_index: Which of them this is.
        replicas_per_shard: Replicas that each of them feeds.

    Raises:
        ValueError: The batch cannot be divided evenly.
    """

    global_batch_size: int
    num_input_shards: int
    shard_index: int
    replicas_per_shard: int

    def __post_init__(self) -> None:
        if not 0 <= self.shard_index < self.num_input_shards:
            raise ValueError(
                "`shard_index` must be from 0 to below `num_input_shards`. "
                f"Received: shard_index={self.shard_index}, "
                f"num_input_shards={self.num_input_shards}."
            )
        num_replicas = self.num_input_shards * self.replicas_per_shard
        if self.global_batch_size < 1 or self.global_batch_size % num_replicas:
            raise ValueError(
                "The batch size must be a multiple of the number of replicas, "
                "because each takes an equal part. Received: batch size "
                f"{self.global_batch_size}, replicas {num_replicas} "
                f"({self.num_input_shards} input pipelines x "
                f"{self.replicas_per_shard})."
            )

    @property
    def rows(self) -> int:
        """Rows of a replica's batch, b."""
        replicas = self.num_input_shards * self.replicas_per_shard
        return self.global_batch_size // replicas

    def positions(self, delivery: int) -> np.ndarray:
        """Returns the places in the stream of this pipeline's n-th batch.

        Args:
            delivery: n, counted from step 0; replicas of a step take turns.

        Returns:
            int64 `[b]`.
        """
        step, replica = divmod(int(delivery), self.replicas_per_shard)
        first_replica = self.shard_index * self.replicas_per_shard
        first = step * self.global_batch_size
        first += (first_replica + replica) * self.rows
        return np.arange(first, first + self.rows)


class TrainingOrder:
    """Which example stands at a place of the endless training stream.

    The permutation of the epoch in use is kept: 8 bytes an example (0.8 GB
    for 100 million), and twice that where two epochs meet.
    """

    def __init__(self, num_records: int, seed: int) -> None:
        self._num_records = num_records
        self._lock = threading.Lock()
        self._permutation = functools.lru_cache(maxsize=2)(
            functools.partial(_permutation, num_records, seed)
        )

    def __call__(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the epoch and the example index at each place, int64."""
        epochs, places = np.divmod(positions, self._num_records)
        indices = np.empty_like(places)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            # One thread at a time, or each would make its own permutation.
            with self._lock:
                permutation = self._permutation(int(epoch))
            indices[here] = permutation[places[here]]
        return epochs, indices


def _permutation(num_records: int, seed: int, epoch: int) -> np.ndarray:
    key = np.array([seed, epoch], np.int64).view(np.uint64)
    rng = np.random.Generator(np.random.Philox(key=key))
    return rng.permutation(num_records)


def sequential_order(
    num_records: int, positions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns epoch and example index at each place, in the files' order."""
    return np.divmod(positions, num_records)
