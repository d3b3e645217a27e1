"""The variables of all models, and their names in every format.

Arrays are known by their TF1 names everywhere in this folder.

Source: names of google-research/albert's released checkpoints, of
transformers' `modeling_albert.py` and of keras_hub's `AlbertBackbone`.
"""

import dataclasses
import functools
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from albert_tf.config import AlbertConfig

if TYPE_CHECKING:
    import keras

POOLER_PREFIX = "bert/pooler/"
# Begins the paths of an encoder's variables in the column `ours`.
_ENCODER = "albert/"
_ENCODER_PARTS = frozenset({"embeddings", "encoder", "pooler"})
# Begins the TF1 names of heads that are in no row.
_OTHER_HEADS = "heads/"
SLOT_SUFFIXES = ("/adam_m", "/adam_v")
GLOBAL_STEP = "global_step"
# Marks the name of a matrix that is stored transposed.
TRANSPOSED = "^T"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """The names of a variable in each format; empty if it is not there.

    In all names, {set} and {inner} stand for numbers. A name that ends in
    `^T` is the name of the transposed matrix. KerasHub's attention kernels and
    biases split H into N x D; the order of the values is the same.

    Args:
        shape: Shape in TF1, as letters: V, E, H, F; S positions, T segment
            types; D twice H; K a number of labels, which no config contains. A
            digit stands for itself.
    """

    shape: str
    ours: str
    tf1: str
    huggingface: str = ""
    keras_hub: str = ""


# The names of a layer's variables end with these: in our models and in TF1, in
# Hugging Face's, in KerasHub's.
_ENDINGS = {
    "dense": (("/kernel", ".weight^T", "/kernel"), ("/bias", ".bias", "/bias")),
    "norm": (("/gamma", ".weight", "/gamma"), ("/beta", ".bias", "/beta")),
    # TF1: output layers store their weights as [out, in], unlike every kernel.
    "output": (
        ("/output_weights", ".weight", "/kernel^T"),
        ("/output_bias", ".bias", "/bias"),
    ),
    # Layers with one variable.
    "table": (("", ".weight", "/embeddings"),),
    "kernel": (("/kernel", "", ""),),
    "bias": (("/output_bias", ".bias", "/output_bias"),),
}
_NUM_FIELDS = 6
_NONE = "-"


def _rows(text: str, *prefixes: str) -> tuple[Row, ...]:
    """Returns the rows of some layers, one for each variable.

    A layer has six fields in the text: its kind; the shape of its first
    variable (the other is as long as its output); and its names without the
    `prefixes`, in the four columns, where `-` stands for none.
    """
    rows = []
    fields = iter(text.split())
    for kind, shape, *names in zip(*[fields] * _NUM_FIELDS, strict=True):
        ours, tf1, huggingface, keras_hub = (
            "" if name == _NONE else prefix + name
            for prefix, name in zip(prefixes or [""] * 4, names, strict=True)
        )
        length = shape[0] if kind == "output" else shape[-1]
        for letters, (name, huggingface_end, keras_hub_end) in zip(
            (shape, length), _ENDINGS[kind], strict=False
        ):
            row = Row(
                shape=letters,
                ours=ours + name,
                # The classifier's output layer has no name of its own in TF1.
                tf1=f"{tf1}{name}".removeprefix("/"),
                huggingface=huggingface and huggingface + huggingface_end,
                keras_hub=keras_hub and keras_hub + keras_hub_end,
            )
            rows.append(row)
    return tuple(rows)


# {set} is the group of layers if the sublayer is shared, and the layer if it
# is not, as in the original with as many groups as layers. The two halves of
# `group_{set}` are numbered independently.
_TF1 = "bert/encoder/transformer/group_{set}/inner_group_{inner}/"
_HF = "albert.encoder.albert_layer_groups.{set}.albert_layers.{inner}."
_HUB = "group_{set}_inner_layer_{inner}/"

EMBEDDINGS = _rows(
    """
    table VE word_embeddings word_embeddings word_embeddings token_embedding
    table TE token_type_embeddings token_type_embeddings token_type_embeddings
      segment_embedding
    table SE position_embeddings position_embeddings position_embeddings
      position_embedding
    norm E layer_norm LayerNorm LayerNorm embeddings_layer_norm
    """,
    *("albert/embeddings/", "bert/embeddings/", "albert.embeddings.", ""),
)
# Exists in our models and in TF1 only if E and H differ.
PROJECTION = _rows("""
    dense EH albert/encoder/embedding_projection
      bert/encoder/embedding_hidden_mapping_in
      albert.encoder.embedding_hidden_mapping_in embedding_projection
""")
_ATTENTION = _rows(
    """
    dense HH query attention_1/self/query
      attention.query self_attention_layer/query
    dense HH key attention_1/self/key
      attention.key self_attention_layer/key
    dense HH value attention_1/self/value
      attention.value self_attention_layer/value
    dense HH output attention_1/output/dense
      attention.dense self_attention_layer/attention_output
    norm H layer_norm LayerNorm
      attention.LayerNorm self_attention_layer_norm
    """,
    "albert/encoder/attention_{set}_{inner}/",
    *(_TF1, _HF, _HUB),
)
# TF1: the output layer's scope was opened inside the intermediate's.
_FEED_FORWARD = _rows(
    """
    dense HF intermediate ffn_1/intermediate/dense
      ffn feedforward_intermediate_dense
    dense FH output ffn_1/intermediate/output/dense
      ffn_output feedforward_output_dense
    norm H layer_norm LayerNorm_1
      full_layer_layer_norm feedforward_layer_norm
    """,
    "albert/encoder/feed_forward_{set}_{inner}/",
    *(_TF1, _HF, _HUB),
)


# The rows of each half of a layer.
SUBLAYERS = {"attention": _ATTENTION, "ffn": _FEED_FORWARD}
POOLER = _rows(
    "dense HH albert/pooler bert/pooler/dense albert.pooler pooled_dense"
)
# The rows of a task: GLUE with K labels, and RACE with K = 1; SQuAD 1.1; the
# beam of SQuAD 2.0, where D is the width of two vectors side by side.
HEADS = _rows("""
    dense HE masked_lm_head/transform cls/predictions/transform/dense
      predictions.dense mlm_head/intermediate_dense
    norm E masked_lm_head/layer_norm cls/predictions/transform/LayerNorm
      predictions.LayerNorm mlm_head/intermediate_layer_norm
    bias V masked_lm_head cls/predictions predictions mlm_head
    output 2H sentence_order_head cls/seq_relationship
      sop_classifier.classifier -
    output KH task_head - classifier logits
    output 2H span_head cls/squad qa_outputs -
    dense H1 beam_span_head/start_dense start_logits/dense - -
    dense DH beam_span_head/end_dense_0 end_logits/dense_0 - -
    norm H beam_span_head/end_layer_norm end_logits/LayerNorm - -
    dense H1 beam_span_head/end_dense_1 end_logits/dense_1 - -
    dense DH beam_span_head/answer_dense_0 answer_class/dense_0 - -
    kernel H1 beam_span_head/answer_dense_1 answer_class/dense_1 - -
""")
TABLE = (
    *EMBEDDINGS,
    *PROJECTION,
    *_ATTENTION,
    *_FEED_FORWARD,
    *POOLER,
    *HEADS,
)


@functools.cache
def _patterns(column: str) -> tuple[tuple[re.Pattern[str], Row], ...]:
    patterns = []
    for row in TABLE:
        name = re.escape(getattr(row, column).removesuffix(TRANSPOSED))
        name = re.sub(r"\\{(\w+)\\}", r"(?P<\1>\\d+)", name)
        if column == "ours":
            # The path of a model within another begins with the other's name,
            # and the user chooses the name of an encoder.
            name = "(?:.*/)?" + re.sub(f"^{_ENCODER}", "[^/]+/", name)
        if name:
            patterns.append((re.compile(name), row))
    return tuple(patterns)


def find(name: str, column: str) -> tuple[Row, dict[str, str]] | None:
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

    The columns are `ours`, `tf1`, `huggingface` and `keras_hub`. Returns the
    name, and whether the matrix is transposed; None if the table or the other
    column has no such variable.
    """
    match = find(name, source)
    if not match or not getattr(match[0], target):
        return None
    old, new = getattr(match[0], source), getattr(match[0], target)
    is_transposed = old.endswith(TRANSPOSED) != new.endswith(TRANSPOSED)
    return new.removesuffix(TRANSPOSED).format(**match[1]), is_transposed


def shape_of(name: str, config: AlbertConfig) -> tuple[int | None, ...]:
    """Returns the shape that a config implies for a variable, by TF1 name.

    None stands for a length that no config determines; empty if unknown.
    """
    match = find(name, "tf1")
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

    A variable that is in no row, and not the encoder's, is of a head that
    nobody else stores: `heads/word_count_head/kernel`.
    """
    translated = translate(path, source="ours", target="tf1")
    if translated:
        return translated[0]
    if _ENCODER_PARTS.isdisjoint(path.split("/")):
        return f"{_OTHER_HEADS}{path}"
    raise ValueError(
        f"Variable {path!r} has no name in TF1 checkpoints. Add a row for it "
        "to albert_tf/checkpoints/variable_names.py."
    )


def variables_by_tf1_name(
    variables: Iterable["keras.Variable"],
) -> dict[str, "keras.Variable"]:
    """Returns Keras variables, such as `model.weights`, by their TF1 names."""
    by_name: dict[str, keras.Variable] = {}
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
    if name.startswith(_OTHER_HEADS):
        return name.split("/")[1]
    if name.startswith("cls/"):
        return "/".join(name.split("/")[:2])
    if name.startswith(("start_logits/", "end_logits/", "answer_class/")):
        return "beam"
    return "task" if name.startswith(("output_weights", "output_bias")) else ""
