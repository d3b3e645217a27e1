"""The signatures of an encoder: the vectors of texts, or of two texts.

Data flow: texts -> ids -> `ExportedEncoder` -> [this file] -> vectors.
"""

import tensorflow as tf

from albert_tf.serving import exported_encoder, model_inputs, signature
from albert_tf.serving.exported_encoder import ExportedEncoder
from albert_tf.serving.signature import Signature, Tensors
from albert_tf.tasks.encoder import model
from albert_tf.tasks.encoder.data import POOLINGS
from albert_tf.tasks.encoder.spec import EncoderSettings
from albert_tf.tasks.spec import Exported


def make_signatures(exported: Exported) -> list[Signature]:
    """Returns the signatures of an encoder.

    Texts, or ids, give `sequence_output` `[B, S, H]`, `pooled_output` `[B, H]`
    and, of it or of the tokens, `vector` `[B, H]`; see `model.pool`.
    """
    settings: EncoderSettings = exported.settings
    encode = ExportedEncoder(exported.model, exported.weights)

    def from_ids(**ids: tf.Tensor) -> Tensors:
        outputs = exported_encoder.vectors(*encode(**ids))
        if settings.pooling in POOLINGS:
            outputs["vector"] = model.pool(
                outputs["sequence_output"],
                ids["input_mask"],
                pooling=settings.pooling,
                normalizes=settings.normalizes,
            )
        return outputs

    def from_text(text_a: tf.Tensor, text_b: tf.Tensor) -> Tensors:
        return from_ids(
            **model_inputs.encode_pairs(
                text_a,
                text_b,
                exported.tokenizer,
                max_seq_length=settings.max_seq_length,
            )
        )

    return signature.text_and_token_signatures(
        from_text, from_ids, example=model_inputs.EXAMPLE
    )
