"""Which weights are not decayed, and in LAMB not adapted either.

Source: google-research/albert, `optimization.py`, which searches the whole
name for "LayerNorm", "layer_norm" or "bias". Here the role decides, which is
the last part of the name: the same weights on every released name, and no
weight is caught because a layer above it happens to be called so.
"""

EXCLUDED_ROLES = frozenset({"beta", "bias", "gamma", "output_bias"})


def is_excluded(path: str) -> bool:
    """Returns whether the weight of this path is left out of the decay.

    >>> is_excluded("bert/embeddings/LayerNorm/gamma")
    True
    >>> is_excluded("bert/pooler/dense/kernel")
    False

    Args:
        path: `path` of a Keras variable, or the name in a TF1 checkpoint.
    """
    return path.rsplit("/", maxsplit=1)[-1] in EXCLUDED_ROLES
