"""The signatures of a `PooledHead`.

Data flow: texts -> ids -> pooled output -> logits -> [this file] -> answers.
"""

from typing import TYPE_CHECKING

import tensorflow as tf

from albert_tf.serving import model_inputs, signature
from albert_tf.serving.exported_encoder import ExportedEncoder
from albert_tf.serving.signature import Signature, Tensors
from albert_tf.tasks.spec import Exported

if TYPE_CHECKING:
    from albert_tf.tasks.pooled.head import PooledHead


def make_signatures(exported: Exported, head: "PooledHead") -> list[Signature]:
    """Returns the signatures of a head.

    Raw text, `text_a` and `text_b` `[B]`, gives the answers of the head, ids
    give its `logits` `[B, K]`. For a head of one text, `text_b` is "".
    """
    encode = ExportedEncoder(exported.model.albert, exported.weights)

    def from_ids(**ids: tf.Tensor) -> Tensors:
        pooled = encode.pooled(**ids)
        with exported.weights.scope():
            return {"logits": exported.model.task_head(pooled)}

    def from_text(text_a: tf.Tensor, text_b: tf.Tensor) -> Tensors:
        ids = model_inputs.encode_pairs(
            text_a,
            text_b,
            exported.tokenizer,
            max_seq_length=exported.settings.max_seq_length,
        )
        answers = head.answers(from_ids(**ids)["logits"])
        return {n: tf.convert_to_tensor(x) for n, x in answers.items()}

    return signature.text_and_token_signatures(
        from_text, from_ids, example=model_inputs.EXAMPLE
    )
