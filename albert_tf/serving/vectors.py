"""The signatures that give the vectors of texts, or of ids.

Data flow: text -> ids -> `ExportedEncoder` -> [this file] -> vectors.

Source: google-research/albert, export_to_tfhub.py (`tokens`); the signature of
raw text is ours.
"""

import tensorflow as tf

from albert_tf.serving import model_inputs, signature
from albert_tf.serving.exported_encoder import ExportedEncoder
from albert_tf.serving.graph_tokenizer import GraphTokenizer
from albert_tf.serving.signature import Signature, Tensors


def vectors(sequence: tf.Tensor, pooled: tf.Tensor | None) -> Tensors:
    """Returns what an `ExportedEncoder` gives, by name and in float32."""
    outputs = {"sequence_output": tf.cast(sequence, tf.float32)}
    if pooled is not None:
        outputs["pooled_output"] = tf.cast(pooled, tf.float32)
    return outputs


def make_signatures(
    encode: ExportedEncoder, tokenizer: GraphTokenizer, *, max_seq_length: int
) -> list[Signature]:
    """Returns the signatures of an encoder."""

    def from_ids(**ids: tf.Tensor) -> Tensors:
        return vectors(*encode(**ids))

    def from_text(text_a: tf.Tensor, text_b: tf.Tensor) -> Tensors:
        ids = model_inputs.encode_pairs(
            text_a, text_b, tokenizer, max_seq_length=max_seq_length
        )
        return from_ids(**ids)

    return signature.text_and_token_signatures(
        from_text, from_ids, example=model_inputs.EXAMPLE
    )
