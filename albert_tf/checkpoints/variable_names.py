"""The variables of all models, and their names in every format.

Arrays are known by their TF1 names everywhere in this folder.

Plain Python: no TensorFlow.

Source: names of google-research/albert's released checkpoints, of
transformers' `modeling_albert.py` and of keras_hub's `AlbertBackbone`.
"""

import dataclasses
import functools
import re
from collections.abc import Iterable
from typing import Any

from albert_tf.config import AlbertConfig

POOLER_PREFIX = "bert/pooler/"
# Begins the paths of an encoder's variables in the column `ours`.
_ENCODER = "albert/"
SLOT_SUFFIXES = ("/adam_m", "/adam_v")
GLOBAL_STEP = "global_step"
# TF-Hub modules begin every name with this.
MODULE_PREFIX = "module/"
# Marks the name of a matrix that is stored transposed.
TRANSPOSED = "^T"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One variable.

    In all names, {set} and {inner} stand for numbers. A name that ends in
    `^T` is that of the transposed matrix. An empty name means that the format
    has no such variable.

    Args:
        shape: Shape in TF1, as letters: V, E, H, F; S positions, T segment
            types; D twice H; K a number of labels that no config contains. A
            digit stands for itself.
        ours: Path of the Keras variable.
        tf1: Name in a TF1 checkpoint.
        huggingface: Name in a `model.safetensors`.
        keras_hub: Path of KerasHub's Keras variable. Its attention kernels
            and biases split H into N x D; the order of the values is the same.
    """

    shape: str
    ours: str
    tf1: str
    huggingface: str = ""
    keras_hub: str = ""


def _layer(
    endings: tuple[tuple[str, str, str], ...],
    shape: str,
    *,
    ours: str,
    tf1: str,
    huggingface: str = "",
    keras_hub: str = "",
) -> tuple[Row, Row]:
    """Returns the rows of a layer's two variables; `shape` is the first's."""
    # The second is a vector, as long as the layer's output.
    length = shape[0] if endings is _OUTPUT_ENDINGS else shape[-1]
    first, second = (
        Row(
            shape=letters,
            ours=f"{ours}/{name}",
            # The classifier's output layer has no name of its own in TF1.
            tf1=f"{tf1}/{name}" if tf1 else name,
            huggingface=huggingface and huggingface + huggingface_end,
            keras_hub=keras_hub and keras_hub + keras_hub_end,
        )
        for letters, (name, huggingface_end, keras_hub_end) in zip(
            (shape, length), endings, strict=True
        )
    )
    return first, second


# What the names of both variables end with: in our models and in TF1, in
# Hugging Face's, in KerasHub's.
_DENSE_ENDINGS = (
    ("kernel", ".weight^T", "/kernel"),
    ("bias", ".bias", "/bias"),
)
_NORM_ENDINGS = (("gamma", ".weight", "/gamma"), ("beta", ".bias", "/beta"))
# TF1: output layers store their weights as [out, in], unlike every kernel.
_OUTPUT_ENDINGS = (
    ("output_weights", ".weight", "/kernel^T"),
    ("output_bias", ".bias", "/bias"),
)
_dense = functools.partial(_layer, _DENSE_ENDINGS)
_norm = functools.partial(_layer, _NORM_ENDINGS)
_output = functools.partial(_layer, _OUTPUT_ENDINGS)


def _embedding(name: str, shape: str, keras_hub: str) -> Row:
    return Row(
        shape=shape,
        ours=f"albert/embeddings/{name}",
        tf1=f"bert/embeddings/{name}",
        huggingface=f"albert.embeddings.{name}.weight",
        keras_hub=f"{keras_hub}/embeddings",
    )


# {set} is the group of layers if the sublayer is shared, and the layer if it
# is not, as in the original with as many groups as layers. If only one half of
# a layer is shared, which the original cannot do, the two halves of
# `group_{set}` are numbered independently.
_ATTENTION = "albert/encoder/attention_{set}_{inner}"
_FEED_FORWARD = "albert/encoder/feed_forward_{set}_{inner}"
_TF1 = "bert/encoder/transformer/group_{set}/inner_group_{inner}"
_HF = "albert.encoder.albert_layer_groups.{set}.albert_layers.{inner}"
_HUB = "group_{set}_inner_layer_{inner}"

EMBEDDINGS: tuple[Row, ...] = (
    _embedding("word_embeddings", "VE", "token_embedding"),
    _embedding("token_type_embeddings", "TE", "segment_embedding"),
    _embedding("position_embeddings", "SE", "position_embedding"),
    *_norm(
        "E",
        ours="albert/embeddings/layer_norm",
        tf1="bert/embeddings/LayerNorm",
        huggingface="albert.embeddings.LayerNorm",
        keras_hub="embeddings_layer_norm",
    ),
)
# Exists in our models and in TF1 only if E and H differ.
PROJECTION: tuple[Row, Row] = _dense(
    "EH",
    ours="albert/encoder/embedding_projection",
    tf1="bert/encoder/embedding_hidden_mapping_in",
    huggingface="albert.encoder.embedding_hidden_mapping_in",
    keras_hub="embedding_projection",
)
ATTENTION: tuple[Row, ...] = (
    *(
        row
        for name in ("query", "key", "value")
        for row in _dense(
            "HH",
            ours=f"{_ATTENTION}/{name}",
            tf1=f"{_TF1}/attention_1/self/{name}",
            huggingface=f"{_HF}.attention.{name}",
            keras_hub=f"{_HUB}/self_attention_layer/{name}",
        )
    ),
    *_dense(
        "HH",
        ours=f"{_ATTENTION}/output",
        tf1=f"{_TF1}/attention_1/output/dense",
        huggingface=f"{_HF}.attention.dense",
        keras_hub=f"{_HUB}/self_attention_layer/attention_output",
    ),
    *_norm(
        "H",
        ours=f"{_ATTENTION}/layer_norm",
        tf1=f"{_TF1}/LayerNorm",
        huggingface=f"{_HF}.attention.LayerNorm",
        keras_hub=f"{_HUB}/self_attention_layer_norm",
    ),
)
FEED_FORWARD: tuple[Row, ...] = (
    *_dense(
        "HF",
        ours=f"{_FEED_FORWARD}/intermediate",
        tf1=f"{_TF1}/ffn_1/intermediate/dense",
        huggingface=f"{_HF}.ffn",
        keras_hub=f"{_HUB}/feedforward_intermediate_dense",
    ),
    *_dense(
        "FH",
        ours=f"{_FEED_FORWARD}/output",
        # TF1: the output layer's scope was opened inside the intermediate's.
        tf1=f"{_TF1}/ffn_1/intermediate/output/dense",
        huggingface=f"{_HF}.ffn_output",
        keras_hub=f"{_HUB}/feedforward_output_dense",
    ),
    *_norm(
        "H",
        ours=f"{_FEED_FORWARD}/layer_norm",
        tf1=f"{_TF1}/LayerNorm_1",
        huggingface=f"{_HF}.full_layer_layer_norm",
        keras_hub=f"{_HUB}/feedforward_layer_norm",
    ),
)
POOLER: tuple[Row, ...] = _dense(
    "HH",
    ours="albert/pooler",
    tf1="bert/pooler/dense",
    huggingface="albert.pooler",
    keras_hub="pooled_dense",
)
_MASKED_LM: tuple[Row, ...] = (
    *_dense(
        "HE",
        ours="masked_lm_head/transform",
        tf1="cls/predictions/transform/dense",
        huggingface="predictions.dense",
        keras_hub="mlm_head/intermediate_dense",
    ),
    *_norm(
        "E",
        ours="masked_lm_head/layer_norm",
        tf1="cls/predictions/transform/LayerNorm",
        huggingface="predictions.LayerNorm",
        keras_hub="mlm_head/intermediate_layer_norm",
    ),
    Row(
        shape="V",
        ours="masked_lm_head/output_bias",
        tf1="cls/predictions/output_bias",
        huggingface="predictions.bias",
        keras_hub="mlm_head/output_bias",
    ),
)
_SENTENCE_ORDER = _output(
    "2H",
    ours="sentence_order_head",
    tf1="cls/seq_relationship",
    huggingface="sop_classifier.classifier",
)
# GLUE with K labels, and RACE with K = 1.
_TASK = _output(
    "KH",
    ours="task_head",
    tf1="",
    huggingface="classifier",
    keras_hub="logits",
)
# SQuAD 1.1.
_SPAN = _output(
    "2H",
    ours="span_head",
    tf1="cls/squad",
    huggingface="qa_outputs",
)
# SQuAD 2.0; D is the width of two vectors side by side.
_BEAM: tuple[Row, ...] = tuple(
    row
    for layer, shape, ours, tf1 in (
        (_dense, "H1", "start_dense", "start_logits/dense"),
        (_dense, "DH", "end_dense_0", "end_logits/dense_0"),
        (_norm, "H", "end_layer_norm", "end_logits/LayerNorm"),
        (_dense, "H1", "end_dense_1", "end_logits/dense_1"),
        (_dense, "DH", "answer_dense_0", "answer_class/dense_0"),
        (_dense, "H1", "answer_dense_1", "answer_class/dense_1"),
    )
    for row in layer(shape, ours=f"beam_span_head/{ours}", tf1=tf1)
    # The last layer has no bias.
    if row.tf1 != "answer_class/dense_1/bias"
)
HEADS = (*_MASKED_LM, *_SENTENCE_ORDER, *_TASK, *_SPAN, *_BEAM)
TABLE = (
    *EMBEDDINGS,
    *PROJECTION,
    *ATTENTION,
    *FEED_FORWARD,
    *POOLER,
    *HEADS,
)


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
    match = _find(name, source)
    if not match or not getattr(match[0], target):
        return None
    row, numbers = match
    template = getattr(row, target)
    is_transposed = template.endswith(TRANSPOSED) != getattr(
        row, source
    ).endswith(TRANSPOSED)
    return template.removesuffix(TRANSPOSED).format(**numbers), is_transposed


def shape_of(name: str, config: AlbertConfig) -> tuple[int | None, ...]:
    """Returns the shape that a config implies for a variable, by TF1 name.

    The shape has None for a length that the config does not determine, and is
    empty for a name that is not in the table.
    """
    match = _find(name, "tf1")
    letters = match[0].shape if match else ""
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
    return tuple(lengths.get(letter) for letter in letters)


def tf1_name(path: str) -> str:
    """Translates the path of one of our variables to its TF1 name.

    >>> tf1_name("albert/embeddings/layer_norm/gamma")
    'bert/embeddings/LayerNorm/gamma'
    """
    translated = translate(path, source="ours", target="tf1")
    if translated is None:
        raise ValueError(
            f"Variable {path!r} has no name in TF1 checkpoints. Add a row for "
            "it to albert_tf/checkpoints/variable_names.py."
        )
    return translated[0]


def variables_by_tf1_name(variables: Iterable[Any]) -> dict[str, Any]:
    """Returns Keras variables, such as `model.weights`, by their TF1 names."""
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


def head_of(name: str) -> str:
    """Returns the head that a TF1 name belongs to; "" for the encoder.

    >>> head_of("cls/predictions/transform/dense/kernel")
    'cls/predictions'
    """
    if name.startswith("cls/"):
        return "/".join(name.split("/")[:2])
    if name.startswith(("start_logits/", "end_logits/", "answer_class/")):
        return "beam"
    return "task" if name.startswith(("output_weights", "output_bias")) else ""


def is_training_state(name: str) -> bool:
    """Returns whether a TF1 name is an optimizer slot or the step counter."""
    return name == GLOBAL_STEP or name.endswith(SLOT_SUFFIXES)
