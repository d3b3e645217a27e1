"""The names of our variables in the checkpoint formats that others made.

One row for each layer that has variables; the last component of a variable's
name (`kernel`, `bias`, `gamma`, ...) is the same in both columns.

Floor: checkpoints. Plain Python: no TensorFlow.

Source: names of google-research/albert's released checkpoints.
"""

import re
from collections.abc import Iterable
from typing import Any

# {set} is the group of layers where the sublayer is shared. Where it is not,
# it is the layer, as in the original with as many groups as layers. The
# original has no checkpoints that share one half of a block: then the two
# halves of the name `group_{set}` count differently, and so stand apart.
_ATTENTION = "albert/encoder/attention_{set}_{inner}"
_FEED_FORWARD = "albert/encoder/feed_forward_{set}_{inner}"
_GROUP = "bert/encoder/transformer/group_{set}/inner_group_{inner}"

# Path of our layer, and its name in a TF1 checkpoint.
LAYER_NAMES: tuple[tuple[str, str], ...] = (
    ("albert/embeddings", "bert/embeddings"),
    ("albert/embeddings/layer_norm", "bert/embeddings/LayerNorm"),
    (
        "albert/encoder/embedding_projection",
        "bert/encoder/embedding_hidden_mapping_in",
    ),
    (f"{_ATTENTION}/query", f"{_GROUP}/attention_1/self/query"),
    (f"{_ATTENTION}/key", f"{_GROUP}/attention_1/self/key"),
    (f"{_ATTENTION}/value", f"{_GROUP}/attention_1/self/value"),
    (f"{_ATTENTION}/output", f"{_GROUP}/attention_1/output/dense"),
    (f"{_ATTENTION}/layer_norm", f"{_GROUP}/LayerNorm"),
    (f"{_FEED_FORWARD}/intermediate", f"{_GROUP}/ffn_1/intermediate/dense"),
    # TF1: the output layer's scope was opened inside the intermediate's.
    (f"{_FEED_FORWARD}/output", f"{_GROUP}/ffn_1/intermediate/output/dense"),
    (f"{_FEED_FORWARD}/layer_norm", f"{_GROUP}/LayerNorm_1"),
    ("albert/pooler", "bert/pooler/dense"),
    ("masked_lm_head/transform", "cls/predictions/transform/dense"),
    ("masked_lm_head/layer_norm", "cls/predictions/transform/LayerNorm"),
    ("masked_lm_head", "cls/predictions"),
    ("sentence_order_head", "cls/seq_relationship"),
)

ENCODER_PREFIX = "bert/"
# Everything that a checkpoint may hold for a head, fine-tuning included.
_HEAD_PREFIXES = (
    "cls/",
    "output_weights",
    "output_bias",
    "start_logits/",
    "end_logits/",
    "answer_class/",
)
SLOT_SUFFIXES = ("/adam_m", "/adam_v")
GLOBAL_STEP = "global_step"
# TF-Hub modules put this before every name.
MODULE_PREFIX = "module/"


def _pattern(layer: str) -> re.Pattern[str]:
    # A model inside another scope has more components in front.
    numbered = layer.replace("{set}", r"(?P<set>\d+)")
    numbered = numbered.replace("{inner}", r"(?P<inner>\d+)")
    return re.compile(rf"(?:^|.*/){numbered}/(?P<variable>\w+)$")


_PATTERNS = tuple((_pattern(ours), tf1) for ours, tf1 in LAYER_NAMES)


def tf1_name(path: str) -> str:
    """Returns the name of one of our variables in a TF1 checkpoint.

    >>> tf1_name("albert/embeddings/layer_norm/gamma")
    'bert/embeddings/LayerNorm/gamma'

    Args:
        path: `path` of the Keras variable.

    Raises:
        ValueError: The table has no row for the variable's layer.
    """
    for pattern, layer in _PATTERNS:
        match = pattern.match(path)
        if match:
            numbers = match.groupdict()
            return f"{layer.format(**numbers)}/{numbers['variable']}"
    raise ValueError(
        f"Variable {path!r} has no name in TF1 checkpoints. Give its layer a "
        "row in albert_tf/checkpoints/variable_names.py."
    )


def variables_by_tf1_name(variables: Iterable[Any]) -> dict[str, Any]:
    """Returns Keras variables by their name in a TF1 checkpoint.

    Args:
        variables: Such as `model.weights`.

    Raises:
        ValueError: A variable has no name there, or two have the same.
    """
    by_name: dict[str, Any] = {}
    for variable in variables:
        name = tf1_name(variable.path)
        if name in by_name:
            raise ValueError(
                f"Variables {by_name[name].path!r} and {variable.path!r} both "
                f"have the name {name!r} in TF1 checkpoints. Save the two "
                "models apart."
            )
        by_name[name] = variable
    return by_name


def is_head(name: str) -> bool:
    """Tells whether a TF1 name is that of a head's variable."""
    return name.startswith(_HEAD_PREFIXES)


def head_of(name: str) -> str:
    """Returns the head that a TF1 name belongs to; "" for the encoder's.

    >>> head_of("cls/predictions/transform/dense/kernel")
    'cls/predictions'
    """
    if not is_head(name):
        return ""
    components = name.split("/")
    return "/".join(components[:2]) if name.startswith("cls/") else "task"


def is_training_state(name: str) -> bool:
    """Tells whether a TF1 name is an optimizer slot or the step counter."""
    return name == GLOBAL_STEP or name.endswith(SLOT_SUFFIXES)
