"""Weights into a model, whatever the checkpoint's format.

The format is recognised by what is at the path, not asked for. Today: TF1
checkpoints, which our own training checkpoints are too.

Floor: checkpoints.
"""

import os
from typing import Any

from albert_tf import files
from albert_tf.checkpoints import tf1_checkpoint, variable_names

_ACCEPTED = (
    "Accepted: a TF1 checkpoint or one of ours (the path without "
    "`.index`, or its folder)"
)
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle")


def load_checkpoint(
    model: Any,
    path: files.Path,
    *,
    allow_new_heads: bool = False,
    from_group_0: bool = False,
) -> list[str]:
    """Sets all weights of a model from a checkpoint.

    If anything is wrong, no weight is changed.

    Args:
        model: An `AlbertModel`, a `PretrainingModel`, or another Keras model
            made of their layers.
        path: A checkpoint's prefix or folder.
        allow_new_heads: Whether a head of the model may be absent from the
            checkpoint; it then keeps the weights that it has.
        from_group_0: Whether every group of layers takes the weights of the
            checkpoint's first group.

    Returns:
        Names of what the checkpoint holds for heads that the model has not.

    Raises:
        FileNotFoundError: There is no checkpoint there.
        ValueError: The format is not one of the accepted ones; or the
            checkpoint is damaged, or a variable is missing, left over or of
            another shape.
    """
    name = files.check_local(path)
    _refuse_other_formats(name)
    return tf1_checkpoint.load(
        model,
        name,
        allow_new_heads=allow_new_heads,
        from_group_0=from_group_0,
    )


def global_step(path: files.Path) -> int:
    """Returns the number of updates that made a checkpoint; 0 if unknown.

    Raises:
        FileNotFoundError: There is no checkpoint there.
        ValueError: It is damaged.
    """
    name = variable_names.GLOBAL_STEP
    if name not in tf1_checkpoint.read_shapes(path):
        return 0
    return int(tf1_checkpoint.read(path, [name])[name])


def _refuse_other_formats(path: str) -> None:
    names = os.listdir(path) if os.path.isdir(path) else [path]
    if any(name.endswith(".index") for name in names):
        return
    pickles = [name for name in names if name.endswith(_PICKLES)]
    if pickles and not os.path.isfile(f"{path}.index"):
        raise ValueError(
            f"{path!r} is a pickle ({os.path.basename(pickles[0])}), which "
            f"can run any code when it is read. {_ACCEPTED}."
        )
    others = [n for n in names if n.endswith((".safetensors", ".h5", ".keras"))]
    if others:
        raise ValueError(
            f"{path!r} holds {os.path.basename(others[0])}, a format that is "
            f"not read. {_ACCEPTED}."
        )
