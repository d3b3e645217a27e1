"""The signatures of an encoder: vectors of raw text or ids, and its heads.

Data flow: text -> ids -> [this file] -> vectors, logits.
Floor: export.

Source: google-research/albert, export_to_tfhub.py (`tokens`, `mlm`, `sop`);
the raw-text signatures are ours.
"""

from typing import Any

import tensorflow as tf

from albert_tf.export import fill_mask, pair_packing, signature
from albert_tf.export.exported_encoder import ExportedEncoder, ExportedWeights
from albert_tf.export.exported_text import ExportedText
from albert_tf.export.signature import Signature, Tensors
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel

_WARMUP_POSITIONS = range(4)


def make_signatures(
    model: AlbertModel | PretrainingModel,
    weights: ExportedWeights,
    text_graph: ExportedText,
    *,
    max_seq_length: int,
) -> list[Signature]:
    """Traces the signatures of a model with or without pretraining heads.

    Args:
        model: The model, of which only the structure is used.
        weights: Its weights.
        text_graph: Makes tokens of raw text.
        max_seq_length: Longest sequence made of raw text.
    """
    encoder = _Encoder(model, weights)

    def from_text(text_a: tf.Tensor, text_b: tf.Tensor) -> Tensors:
        ids = pair_packing.encode_pairs(
            text_a, text_b, text_graph, max_seq_length=max_seq_length
        )
        return encoder.tokens(**ids)

    found = signature.text_and_token_signatures(
        from_text, encoder.tokens, example=pair_packing.EXAMPLE
    )
    ids = signature.id_inputs()
    if encoder.masked_lm_head is not None:
        mlm = Signature(
            name="mlm",
            function=signature.trace(
                encoder.mlm,
                **ids,
                mlm_positions=signature.integers(None, None),
            ),
            warmup=signature.id_requests(mlm_positions=_WARMUP_POSITIONS),
        )
        fill = fill_mask.make_signature(
            encoder.masked_logits, text_graph, max_seq_length=max_seq_length
        )
        found += [mlm, fill]
    if encoder.sentence_order_head is not None:
        sop = Signature(
            name="sop",
            function=signature.trace(encoder.sop, **ids),
            warmup=signature.id_requests(),
        )
        found.append(sop)
    return found


class _Encoder:
    """Computes the outputs of the signatures from ids."""

    def __init__(
        self, model: AlbertModel | PretrainingModel, weights: ExportedWeights
    ) -> None:
        has_heads = isinstance(model, PretrainingModel)
        self._albert: Any = model.albert if has_heads else model
        self.masked_lm_head: Any = getattr(model, "masked_lm_head", None)
        self.sentence_order_head: Any = getattr(
            model, "sentence_order_head", None
        )
        self._weights = weights
        self._encode = ExportedEncoder(self._albert, weights)

    def tokens(self, **ids: tf.Tensor) -> Tensors:
        return _vectors(*self._encode(**ids))

    def mlm(self, mlm_positions: tf.Tensor, **ids: tf.Tensor) -> Tensors:
        sequence, pooled = self._encode(**ids)
        logits = self._mask_logits(sequence, mlm_positions)
        return {**_vectors(sequence, pooled), "mlm_logits": logits}

    def masked_logits(self, positions: tf.Tensor, **ids: tf.Tensor) -> Any:
        sequence, _ = self._encode(**ids)
        return self._mask_logits(sequence, positions)

    def _mask_logits(self, sequence: tf.Tensor, positions: tf.Tensor) -> Any:
        with self._weights.scope():
            table = self._albert.embeddings.word_embeddings
            return self.masked_lm_head(
                sequence, positions, tf.convert_to_tensor(table)
            )

    def sop(self, **ids: tf.Tensor) -> Tensors:
        sequence, pooled = self._encode(**ids)
        with self._weights.scope():
            logits = self.sentence_order_head(pooled)
        return {
            **_vectors(sequence, pooled),
            "sop_log_probs": tf.nn.log_softmax(logits),
        }


def _vectors(sequence: tf.Tensor, pooled: tf.Tensor) -> Tensors:
    return {
        "sequence_output": tf.cast(sequence, tf.float32),
        "pooled_output": tf.cast(pooled, tf.float32),
    }
