"""Which tensor is which: one table, and every format is a column of it.

A row is a variable: its path in our models, its name in TF1 checkpoints (the
names by which arrays are known everywhere in this folder), in Hugging Face's
files and in KerasHub's models, and its shape.

Floor: checkpoints. Plain Python: no TensorFlow.

Source: names of google-research/albert's released checkpoints, of
transformers' `modeling_albert.py` and of keras_hub's `AlbertBackbone`.
"""

import dataclasses

# Ends the name of a matrix that is stored the other way round.
TRANSPOSED = "^T"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One variable; in all names, {set} and {inner} stand for numbers.

    A name that ends in `^T` is that of the transposed matrix; an empty one
    says that the format has no such variable.

    Args:
        shape: In TF1, as letters: V, E, H, F; S positions, T segment types;
            D twice H; a digit is itself, K a number of labels that no config
            tells.
        ours: Path of the Keras variable.
        tf1: Name in a TF1 checkpoint.
        huggingface: Name in a `model.safetensors`.
        keras_hub: Path of KerasHub's Keras variable. Its attention kernels
            and biases split H into N x D; the order of the values is the same.
    """

    shape: str
    ours: str = ""
    tf1: str
    huggingface: str = ""
    keras_hub: str = ""


def _dense(
    shape: str, *, ours: str, tf1: str, huggingface: str, keras_hub: str
) -> tuple[Row, Row]:
    kernel = Row(
        shape=shape,
        ours=f"{ours}/kernel",
        tf1=f"{tf1}/kernel",
        huggingface=f"{huggingface}.weight^T",
        keras_hub=f"{keras_hub}/kernel",
    )
    bias = Row(
        shape=shape[-1],
        ours=f"{ours}/bias",
        tf1=f"{tf1}/bias",
        huggingface=f"{huggingface}.bias",
        keras_hub=f"{keras_hub}/bias",
    )
    return kernel, bias


def _norm(
    shape: str, *, ours: str, tf1: str, huggingface: str, keras_hub: str
) -> tuple[Row, ...]:
    return tuple(
        Row(
            shape=shape,
            ours=f"{ours}/{name}",
            tf1=f"{tf1}/{name}",
            huggingface=f"{huggingface}.{foreign}",
            keras_hub=f"{keras_hub}/{name}",
        )
        for name, foreign in (("gamma", "weight"), ("beta", "bias"))
    )


def _embedding(name: str, shape: str, keras_hub: str) -> Row:
    return Row(
        shape=shape,
        ours=f"albert/embeddings/{name}",
        tf1=f"bert/embeddings/{name}",
        huggingface=f"albert.embeddings.{name}.weight",
        keras_hub=f"{keras_hub}/embeddings",
    )


def _beam(shape: str, *, ours: str, tf1: str) -> tuple[Row, Row]:
    return (
        Row(
            shape=shape,
            ours=f"beam_span_head/{ours}/kernel",
            tf1=f"{tf1}/kernel",
        ),
        Row(
            shape=shape[-1],
            ours=f"beam_span_head/{ours}/bias",
            tf1=f"{tf1}/bias",
        ),
    )


# {set} is the group of layers where the sublayer is shared. Where it is not,
# it is the layer, as in the original with as many groups as layers. The
# original has no checkpoints that share one half of a block: then the two
# halves of the name `group_{set}` count differently, and so stand apart.
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
HEADS: tuple[Row, ...] = (
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
    # TF1: from here on `[out, in]`, unlike every kernel, and so in the task
    # heads below (GLUE and RACE, then SQuAD 1.1).
    Row(
        shape="2H",
        ours="sentence_order_head/output_weights",
        tf1="cls/seq_relationship/output_weights",
        huggingface="sop_classifier.classifier.weight",
    ),
    Row(
        shape="2",
        ours="sentence_order_head/output_bias",
        tf1="cls/seq_relationship/output_bias",
        huggingface="sop_classifier.classifier.bias",
    ),
    # Of GLUE with K labels, and of RACE with K = 1.
    Row(
        shape="KH",
        ours="task_head/output_weights",
        tf1="output_weights",
        huggingface="classifier.weight",
        keras_hub="logits/kernel^T",
    ),
    Row(
        shape="K",
        ours="task_head/output_bias",
        tf1="output_bias",
        huggingface="classifier.bias",
        keras_hub="logits/bias",
    ),
    Row(
        shape="2H",
        ours="span_head/output_weights",
        tf1="cls/squad/output_weights",
        huggingface="qa_outputs.weight",
    ),
    Row(
        shape="2",
        ours="span_head/output_bias",
        tf1="cls/squad/output_bias",
        huggingface="qa_outputs.bias",
    ),
    # SQuAD 2.0; D is two vectors side by side.
    *_beam("H1", ours="start_dense", tf1="start_logits/dense"),
    *_beam("DH", ours="end_dense_0", tf1="end_logits/dense_0"),
    Row(
        shape="H",
        ours="beam_span_head/end_layer_norm/gamma",
        tf1="end_logits/LayerNorm/gamma",
    ),
    Row(
        shape="H",
        ours="beam_span_head/end_layer_norm/beta",
        tf1="end_logits/LayerNorm/beta",
    ),
    *_beam("H1", ours="end_dense_1", tf1="end_logits/dense_1"),
    *_beam("DH", ours="answer_dense_0", tf1="answer_class/dense_0"),
    _beam("H1", ours="answer_dense_1", tf1="answer_class/dense_1")[0],
)
TABLE: tuple[Row, ...] = (
    *EMBEDDINGS,
    *PROJECTION,
    *ATTENTION,
    *FEED_FORWARD,
    *POOLER,
    *HEADS,
)
