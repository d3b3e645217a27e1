"""Layer-wise decay: the learning rate falls from the head to the embeddings.

A published ALBERT shares one block among all layers, so there is no rate for
each layer, but for each *level*. From the bottom:

1. the embeddings (tokens, segments, positions and their layer norm),
2. the projection from E to H, if the model has one,
3. each group of layers, beginning with the group of the first layers; where
   layers share nothing, every layer is a group,
4. the pooler and the task's head.

The head has the full rate, and each level has `decay` times the rate of the
level above. Where only one half of each layer is shared, the shared half
belongs to the level of the last layers that use it.

Source: Howard and Ruder 2018 (ULMFiT), section 3.2, "discriminative
fine-tuning". The levels are ours.
"""

import re
from collections.abc import Mapping, Sequence

_EMBEDDINGS = re.compile(r"(^|/)embeddings/")
_PROJECTION = re.compile(r"(^|/)embedding_projection/")
_BLOCK = re.compile(r"(^|/)(?P<half>attention|feed_forward)_(?P<set>\d+)_\d+/")


def learning_rate_multipliers(
    paths: Sequence[str],
    *,
    decay: float = 1.0,
    freeze_embeddings: bool = False,
) -> dict[str, float]:
    """Returns the number that each weight's learning rate is multiplied by.

    >>> learning_rate_multipliers(
    ...     ["albert/embeddings/x", "albert/pooler/bias"], decay=0.5)
    {'albert/embeddings/x': 0.5, 'albert/pooler/bias': 1.0}

    Args:
        paths: `path` of all weights of the model.
        decay: Factor from one level to the level below, at most 1.
        freeze_embeddings: Whether the multiplier of the embeddings is 0.
    """
    # The sets of weights of each half of the layers.
    num_sets: dict[str, int] = {}
    for match in filter(None, map(_BLOCK.search, paths)):
        half = match["half"]
        num_sets[half] = max(num_sets.get(half, 0), int(match["set"]) + 1)
    keys = {path: _level_key(path, num_sets) for path in paths}
    highest_first = sorted(set(keys.values()), reverse=True)
    multipliers = {
        path: decay ** highest_first.index(key) for path, key in keys.items()
    }
    for path in paths:
        if freeze_embeddings and _EMBEDDINGS.search(path):
            multipliers[path] = 0.0
    return multipliers


def _level_key(path: str, num_sets: Mapping[str, int]) -> tuple[int, int]:
    """Returns a sort key of the level that a weight belongs to."""
    if _EMBEDDINGS.search(path):
        return 0, 0
    if _PROJECTION.search(path):
        return 1, 0
    match = _BLOCK.search(path)
    if match:
        last = (int(match["set"]) + 1) * max(num_sets.values())
        return 2, last // num_sets[match["half"]]
    return 3, 0
