"""Translates names of variables between the columns of `variable_table`.

Arrays are known by their TF1 names everywhere in this folder.

Floor: checkpoints. Plain Python: no TensorFlow.
"""

import functools
import re
from collections.abc import Iterable
from typing import Any

from albert_tf.checkpoints.variable_table import TABLE, TRANSPOSED, Row
from albert_tf.config import AlbertConfig

POOLER_PREFIX = "bert/pooler/"
# Begins the paths of an encoder's variables in `variable_table`.
_ENCODER = "albert/"
# What the names of all heads' variables begin with.
_BEAM_PREFIXES = ("start_logits/", "end_logits/", "answer_class/")
_HEAD_PREFIXES = ("cls/", "output_weights", "output_bias", *_BEAM_PREFIXES)
SLOT_SUFFIXES = ("/adam_m", "/adam_v")
GLOBAL_STEP = "global_step"
# TF-Hub modules begin every name with this.
MODULE_PREFIX = "module/"


@functools.cache
def _patterns(column: str) -> tuple[tuple[re.Pattern[str], Row], ...]:
    patterns = []
    for row in TABLE:
        name = getattr(row, column).removesuffix(TRANSPOSED)
        # The path of a model within another begins with the other's name, and
        # the user chooses the name of an encoder.
        is_encoder = column == "ours" and name.startswith(_ENCODER)
        front = "(?:.*/)?" if column == "ours" else ""
        if is_encoder:
            front, name = f"{front}[^/]+/", name.removeprefix(_ENCODER)
        if name:
            numbered = re.escape(name).replace(r"\{set\}", r"(?P<set>\d+)")
            numbered = numbered.replace(r"\{inner\}", r"(?P<inner>\d+)")
            patterns.append((re.compile(front + numbered), row))
    return tuple(patterns)


def _find(name: str, column: str) -> tuple[Row, dict[str, str]] | None:
    """Returns the row with this name in a column, and the name's numbers."""
    for pattern, row in _patterns(column):
        match = pattern.fullmatch(name)
        if match:
            return row, match.groupdict()
    return None


def translate(
    name: str, *, source: str, target: str
) -> tuple[str, bool] | None:
    """Translates a variable's name from one column of the table to another.

    >>> translate("bert/pooler/dense/kernel", source="tf1",
    ...           target="huggingface")
    ('albert.pooler.weight', True)

    Args:
        name: Its name in the column `source`.
        source: `ours`, `tf1`, `huggingface` or `keras_hub`.
        target: The other column.

    Returns:
        The name, and whether the matrix is transposed. None if the table or
        the other column has no such variable.
    """
    found = _find(name, source)
    if not found or not getattr(found[0], target):
        return None
    row, numbers = found
    template = getattr(row, target)
    is_transposed = template.endswith(TRANSPOSED) != getattr(
        row, source
    ).endswith(TRANSPOSED)
    return template.removesuffix(TRANSPOSED).format(**numbers), is_transposed


def shape_of(name: str, config: AlbertConfig) -> tuple[int | None, ...] | None:
    """Returns the shape that a config implies for a variable.

    Args:
        name: TF1 name of the variable.
        config: Shape of the model.

    Returns:
        The shape, with None for a length that the config does not determine.
        None for a name that is not in the table.
    """
    found = _find(name, "tf1")
    if not found:
        return None
    lengths = {
        "V": config.vocab_size,
        "E": config.embedding_size,
        "H": config.hidden_size,
        "F": config.intermediate_size,
        "S": config.max_position_embeddings,
        "T": config.type_vocab_size,
        "D": 2 * config.hidden_size,
        "1": 1,
        "2": 2,
    }
    return tuple(lengths.get(letter) for letter in found[0].shape)


def tf1_name(path: str) -> str:
    """Translates the path of one of our variables to its TF1 name.

    >>> tf1_name("albert/embeddings/layer_norm/gamma")
    'bert/embeddings/LayerNorm/gamma'

    Args:
        path: `path` of the Keras variable.

    Raises:
        ValueError: The table has no row for the variable.
    """
    found = translate(path, source="ours", target="tf1")
    if found is None:
        raise ValueError(
            f"Variable {path!r} has no name in TF1 checkpoints. Add a row for "
            "it to albert_tf/checkpoints/variable_table.py."
        )
    return found[0]


def variables_by_tf1_name(variables: Iterable[Any]) -> dict[str, Any]:
    """Returns Keras variables by their TF1 names.

    Args:
        variables: For example `model.weights`.

    Raises:
        ValueError: A variable has no TF1 name, or two have the same.
    """
    by_name: dict[str, Any] = {}
    for variable in variables:
        name = tf1_name(variable.path)
        if name in by_name:
            raise ValueError(
                f"Variables {by_name[name].path!r} and {variable.path!r} both "
                f"have the name {name!r} in TF1 checkpoints. Load or save each "
                "of the two models on its own."
            )
        by_name[name] = variable
    return by_name


def is_head(name: str) -> bool:
    """Returns whether a TF1 name belongs to a head."""
    return name.startswith(_HEAD_PREFIXES)


def head_of(name: str) -> str:
    """Returns the head that a TF1 name belongs to; "" for the encoder.

    >>> head_of("cls/predictions/transform/dense/kernel")
    'cls/predictions'
    """
    if not is_head(name):
        return ""
    if name.startswith(_BEAM_PREFIXES):
        return "beam"
    components = name.split("/")
    return "/".join(components[:2]) if name.startswith("cls/") else "task"


def is_training_state(name: str) -> bool:
    """Returns whether a TF1 name is an optimizer slot or the step counter."""
    return name == GLOBAL_STEP or name.endswith(SLOT_SUFFIXES)
