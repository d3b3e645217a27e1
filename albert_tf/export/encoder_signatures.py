"""What an encoder can be asked: vectors of raw text or of ids, and its heads.

Data flow: text -> ids -> [this file] -> vectors, logits.
Floor: export.

Source: google-research/albert, export_to_tfhub.py (`tokens`, `mlm`, `sop`);
raw text is ours.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from albert_tf.export import fill_mask, pair_packing, signature
from albert_tf.export.exported_encoder import ServedEncoder, ServedWeights
from albert_tf.export.exported_text import ServedText
from albert_tf.export.signature import Signature
from albert_tf.export.tokens import TextGraph
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel

Tensors = dict[str, tf.Tensor]

_WARMUP_TEXTS = {
    "text_a": "A first sentence.",
    "text_b": "A second one, some words longer.",
}
_WARMUP_POSITIONS = range(4)


def pair_inputs(
    text_graph: TextGraph, *, max_seq_length: int
) -> Callable[[tf.Tensor, tf.Tensor], Tensors]:
    """Returns a function from pairs of texts to the inputs of a model.

    Args:
        text_graph: Makes the ids.
        max_seq_length: Longest sequence.

    Returns:
        A function of two string tensors `[B]`.
    """

    def encode(text_a: tf.Tensor, text_b: tf.Tensor) -> Tensors:
        texts = signature.same_size(text_a=text_a, text_b=text_b)
        tokens = text_graph(tf.concat(texts, 0))
        with tf.device("/device:CPU:0"):
            return pair_packing.pack_pairs(
                tokens,
                max_seq_length=max_seq_length,
                special=text_graph.special_ids,
            )

    return encode


def make_signatures(
    model: AlbertModel | PretrainingModel,
    weights: ServedWeights,
    text_graph: TextGraph,
    *,
    max_seq_length: int,
) -> list[Signature]:
    """Traces what a model with or without pretraining heads can be asked.

    Args:
        model: Called for its structure.
        weights: Its weights.
        text_graph: Text to ids.
        max_seq_length: Longest sequence made of raw text.
    """
    encoder = _Encoder(model, weights)
    ids = {name: signature.integers(None, None) for name in signature.ID_INPUTS}
    texts = {name: signature.strings(None) for name in ("text_a", "text_b")}
    text_graph = ServedText(text_graph)
    encode = pair_inputs(text_graph, max_seq_length=max_seq_length)

    def from_text(text_a: tf.Tensor, text_b: tf.Tensor) -> Tensors:
        return encoder.tokens(**encode(text_a, text_b))

    found = [
        Signature(
            name=signature.DEFAULT,
            function=signature.trace(from_text, **texts),
            warmup=signature.text_requests(**_WARMUP_TEXTS),
        ),
        Signature(
            name=signature.TOKENS,
            function=signature.trace(encoder.tokens, **ids),
            warmup=signature.id_requests(),
        ),
    ]
    if encoder.masked_lm_head is not None:
        positions = signature.integers(None, None)
        found.append(
            Signature(
                name="mlm",
                function=signature.trace(
                    encoder.mlm, **ids, mlm_positions=positions
                ),
                warmup=signature.id_requests(mlm_positions=_WARMUP_POSITIONS),
            )
        )
        found.append(
            fill_mask.make_signature(
                encoder.masked_logits,
                text_graph,
                max_seq_length=max_seq_length,
            )
        )
    if encoder.sentence_order_head is not None:
        found.append(
            Signature(
                name="sop",
                function=signature.trace(encoder.sop, **ids),
                warmup=signature.id_requests(),
            )
        )
    return found


class _Encoder:
    """The numeric half of the signatures."""

    def __init__(
        self, model: AlbertModel | PretrainingModel, weights: ServedWeights
    ) -> None:
        has_heads = isinstance(model, PretrainingModel)
        self._albert: Any = model.albert if has_heads else model
        self.masked_lm_head: Any = getattr(model, "masked_lm_head", None)
        self.sentence_order_head: Any = getattr(
            model, "sentence_order_head", None
        )
        self._weights = weights
        self._encode = ServedEncoder(self._albert, weights)

    def tokens(self, **ids: tf.Tensor) -> Tensors:
        return _outputs(*self._encode(**ids))

    def mlm(self, mlm_positions: tf.Tensor, **ids: tf.Tensor) -> Tensors:
        sequence, pooled = self._encode(**ids)
        logits = self._mask_logits(sequence, mlm_positions)
        return {**_outputs(sequence, pooled), "mlm_logits": logits}

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
            **_outputs(sequence, pooled),
            "sop_log_probs": tf.nn.log_softmax(logits),
        }


def _outputs(sequence: tf.Tensor, pooled: tf.Tensor) -> Tensors:
    return {
        "sequence_output": tf.cast(sequence, tf.float32),
        "pooled_output": tf.cast(pooled, tf.float32),
    }
