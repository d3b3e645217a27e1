"""What an encoder can be asked: vectors of raw text or of ids, and its heads.

Data flow: text -> ids -> [this file] -> vectors, logits.
Floor: export.

Source: google-research/albert, export_to_tfhub.py (`tokens`, `mlm`, `sop`);
raw text is ours.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.export import pair_packing, signature
from albert_tf.export.pieces import TextGraph
from albert_tf.export.served_encoder import ServedEncoder
from albert_tf.export.served_weights import ServedWeights
from albert_tf.export.signature import Signature
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel

Tensors = dict[str, tf.Tensor]

_ID_INPUTS = ("input_ids", "input_mask", "segment_ids")
_WARMUP_TEXTS = ("A first sentence.", "A second one, some words longer.")
_WARMUP_BATCHES = (1, 8)
_WARMUP_LENGTH = 32
_NUM_WARMUP_POSITIONS = 4


def pair_inputs(
    text_graph: TextGraph, *, max_seq_length: int
) -> Callable[[tf.Tensor, tf.Tensor], Tensors]:
    """Returns a function from pairs of texts to the inputs of a model.

    Args:
        text_graph: Makes the ids. It is traced once, for both texts.
        max_seq_length: Longest sequence.

    Returns:
        A function of two string tensors `[B]`.
    """

    def encode(text_a: tf.Tensor, text_b: tf.Tensor) -> Tensors:
        is_paired = tf.Assert(
            tf.equal(tf.size(text_a), tf.size(text_b)),
            [
                "text_a and text_b must have as many strings; text_b may be "
                "empty strings. Received:",
                tf.size(text_a),
                tf.size(text_b),
            ],
        )
        with tf.control_dependencies([is_paired]):
            texts = tf.concat([text_a, text_b], 0)
        # Many small steps, of which a GPU would only make slow ones.
        with tf.device("/device:CPU:0"):
            return pair_packing.pack_pairs(
                text_graph(texts),
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
    ids = {name: signature.integers(None, None) for name in _ID_INPUTS}
    texts = {name: signature.strings(None) for name in ("text_a", "text_b")}
    encode = pair_inputs(text_graph, max_seq_length=max_seq_length)

    def from_text(text_a: tf.Tensor, text_b: tf.Tensor) -> Tensors:
        return encoder.tokens(**encode(text_a, text_b))

    found = [
        Signature(
            name=signature.DEFAULT,
            function=signature.trace(from_text, **texts),
            warmup=_text_requests(),
        ),
        Signature(
            name=signature.TOKENS,
            function=signature.trace(encoder.tokens, **ids),
            warmup=_id_requests(),
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
                warmup=_id_requests(with_positions=True),
            )
        )
    if encoder.sentence_order_head is not None:
        found.append(
            Signature(
                name="sop",
                function=signature.trace(encoder.sop, **ids),
                warmup=_id_requests(),
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
        with self._weights.scope():
            table = self._albert.embeddings.word_embeddings
            logits = self.masked_lm_head(
                sequence, mlm_positions, tf.convert_to_tensor(table)
            )
        return {**_outputs(sequence, pooled), "mlm_logits": logits}

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


def _text_requests() -> tuple[dict[str, Any], ...]:
    return tuple(
        {
            name: np.array([text] * batch, object)
            for name, text in zip(
                ("text_a", "text_b"), _WARMUP_TEXTS, strict=True
            )
        }
        for batch in _WARMUP_BATCHES
    )


def _id_requests(
    *, with_positions: bool = False
) -> tuple[dict[str, np.ndarray], ...]:
    requests = []
    for batch in _WARMUP_BATCHES:
        ones = np.ones((batch, _WARMUP_LENGTH), np.int32)
        request = {
            "input_ids": ones,
            "input_mask": ones,
            "segment_ids": ones * 0,
        }
        if with_positions:
            request["mlm_positions"] = ones[:, :_NUM_WARMUP_POSITIONS]
        requests.append(request)
    return tuple(requests)
