"""Checks of what a request holds, and the requests that warm a model up.

Floor: export.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

WARMUP_BATCHES = (1, 8)
_WARMUP_LENGTH = 32
ID_INPUTS = ("input_ids", "input_mask", "segment_ids")


def same_size(**texts: tf.Tensor) -> list[tf.Tensor]:
    """Returns inputs `[B, ...]`, after a check that their B is the same.

    In the graph, others end in an `InvalidArgumentError`.
    """
    sizes = [tf.shape(values)[0] for values in texts.values()]
    checks = [
        tf.Assert(
            tf.equal(size, sizes[0]),
            [
                f"{' and '.join(texts)} must have as many strings. Received:",
                *sizes,
            ],
        )
        for size in sizes[1:]
    ]
    with tf.control_dependencies(checks):
        return [tf.identity(values) for values in texts.values()]


def text_requests(
    **texts: str | Sequence[str],
) -> tuple[dict[str, np.ndarray], ...]:
    """Returns requests of one text for each input, in batches."""
    return tuple(
        {name: np.array([text] * batch, object) for name, text in texts.items()}
        for batch in WARMUP_BATCHES
    )


def id_requests(
    *inner: int, **others: Sequence[int]
) -> tuple[Mapping[str, Any], ...]:
    """Returns requests of ids, in batches.

    Args:
        *inner: Sizes between batch and sequence, such as of the choices.
        **others: Another input of each row.
    """
    requests = []
    for batch in WARMUP_BATCHES:
        ones = np.ones((batch, *inner, _WARMUP_LENGTH), np.int32)
        request = {name: ones for name in ID_INPUTS}
        request["segment_ids"] = ones * 0
        for name, row in others.items():
            request[name] = np.array([row] * batch, np.int32)
        requests.append(request)
    return tuple(requests)
