"""Weights into a model, whatever the checkpoint's format.

The format is recognised by what is at the path, not asked for.

Floor: checkpoints.
"""

import os
from typing import Any

from albert_tf import files
from albert_tf.checkpoints import (
    assignment,
    huggingface,
    keras_hub,
    tf1_checkpoint,
    tf1_folder,
    variable_names,
)
from albert_tf.checkpoints.checkpoint import Checkpoint

_ACCEPTED = (
    "Accepted: a TF1 checkpoint or one of ours (the path without `.index`, or "
    "its folder), the folder of a run, a Hugging Face folder with "
    "model.safetensors, a KerasHub preset folder"
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
        path: Of a checkpoint in any format that `recognise` knows.
        allow_new_heads: Whether a head of the model may be absent from the
            checkpoint, or be another task's there, of another shape; it then
            keeps the weights that it has.
        from_group_0: Whether every group of layers takes the weights of the
            checkpoint's first group.

    Returns:
        Names of what the checkpoint holds for heads that the model has not.

    Raises:
        FileNotFoundError: There is no checkpoint there.
        ImportError: The format needs a package that is not installed.
        ValueError: The format is not one of the accepted ones; or the
            checkpoint is damaged, or a variable is missing, left over or of
            another shape, or its config gives the model's weights another
            meaning.
    """
    name = os.fspath(path)
    if recognise(path) == "tf1":
        weights = tf1_folder.read_arrays(path, with_slots=False)
    else:
        source = read(path)
        _check_same_meaning(model, source, name)
        weights = source.weights
    return assignment.assign(
        model,
        weights,
        name,
        allow_new_heads=allow_new_heads,
        from_group_0=from_group_0,
    )


def read(path: files.Path) -> Checkpoint:
    """Reads a checkpoint of any format.

    Args:
        path: Of a checkpoint in any format that `recognise` knows.

    Raises:
        FileNotFoundError, ImportError, ValueError: See `load_checkpoint`.
    """
    kind = recognise(path)
    if kind == "huggingface":
        return huggingface.read(path)
    if kind == "keras_hub":
        return keras_hub.read(path)
    return tf1_folder.read(path)


def recognise(path: files.Path) -> str:
    """Returns `tf1` (ours are too), `huggingface` or `keras_hub`.

    Raises:
        ValueError: What is there is of another format.
    """
    name = files.check_local(path)
    if huggingface.is_folder(name):
        return "huggingface"
    if keras_hub.is_folder(name):
        return "keras_hub"
    _refuse_other_formats(name)
    return "tf1"


def global_step(path: files.Path) -> int:
    """Returns the number of updates that made a checkpoint; 0 if unknown.

    Raises:
        FileNotFoundError: There is no checkpoint there.
        ValueError: It is damaged, or of another format.
    """
    if recognise(path) != "tf1":
        return 0
    prefix = tf1_folder.resolve(path)
    name = variable_names.GLOBAL_STEP
    if name not in tf1_checkpoint.read_shapes(prefix):
        return 0
    return int(tf1_checkpoint.read(prefix, [name])[name])


def _check_same_meaning(model: Any, source: Checkpoint, where: str) -> None:
    """Checks what the shapes of the weights do not tell."""
    wanted = getattr(model, "config", None)
    if wanted is None or source.config is None:
        return
    for field in ("hidden_act", "num_attention_heads"):
        theirs, ours = getattr(source.config, field), getattr(wanted, field)
        if theirs != ours:
            raise ValueError(
                f"Checkpoint {where!r} was made with {field}={theirs!r}, the "
                f"model has {field}={ours!r}. Use the config that the "
                "checkpoint was made with."
            )


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
