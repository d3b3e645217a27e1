"""Vectors of texts, the model halves: answers, and training on pairs.

Source: Reimers and Gurevych 2019, "Sentence-BERT"; sentence-transformers 6,
`CoSENTLoss`, `CosineSimilarityLoss`, `MultipleNegativesRankingLoss`.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling import base, losses
from albert_tf.modeling.albert_model import ModelWithHead
from albert_tf.modeling.losses import LossSums
from albert_tf.tasks.encoder.data import VectorData
from albert_tf.tasks.finetuning import MeanLossTask
from albert_tf.tasks.task import AnswerTask, Batch, Totals

_NEVER = -1e9  # a score that a softmax turns to 0


def pool(
    sequence: tf.Tensor,
    input_mask: tf.Tensor,
    *,
    pooling: str,
    normalizes: bool,
) -> tf.Tensor:
    """Returns vectors, float32 `[B, H]`, of the last layer, `[B, S, H]`.

    They are the mean over the tokens of the mask, int `[B, S]`, or the first
    ones; with length 1 if `normalizes`.
    """
    sequence = tf.cast(sequence, tf.float32)
    vector = sequence[:, 0]
    if pooling == "mean":
        mask = tf.cast(input_mask, tf.float32)[:, :, None]
        vector = tf.reduce_sum(sequence * mask, 1) / tf.reduce_sum(mask, 1)
    return tf.math.l2_normalize(vector, axis=-1) if normalizes else vector


class VectorOutputs(AnswerTask):
    """Computes `vector`, float32 `[B, H]`, as `data` says; see `VectorData`."""

    def __init__(self, data: VectorData, model: Any) -> None:
        super().__init__(model)
        self._data = data

    def final_outputs(self, batch: Batch) -> Totals:
        """Returns the vectors of a batch."""
        sequence = super().final_outputs(batch)["sequence_output"]
        vector = pool(
            sequence,
            batch["input_mask"],
            pooling=self._data.pooling,
            normalizes=self._data.normalizes,
        )
        return {"vector": vector}


@base.register
class TextsModel(ModelWithHead):
    """Encodes C texts a row: of ids `[B, C, S]`, those of the B x C texts.

    Returns what an `AlbertModel` does.
    """

    input_rank = 3

    def __init__(self, config: AlbertConfig, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self.build_layers()

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool | None = None,
        seed: tf.Tensor | None = None,
        **options: Any,
    ) -> Totals:
        """Encodes each text on its own."""
        length = ops.shape(inputs["input_ids"])[-1]
        rows = {n: ops.reshape(x, (-1, length)) for n, x in inputs.items()}
        return dict(self.albert(rows, training=training, seed=seed, **options))


class SimilarityTask(MeanLossTask):
    """Trains the cosines of the vectors of C texts a row; B rows are a batch.

    The first two texts of a row are a pair. `loss` is `softmax`: the second
    text, among those of all rows, and the third ones, is that of the first; or
    `cosent` or `cosine`, of the `scores` of pairs, float32 `[B]`. Outputs are
    `vectors`, float32 `[B, C, H]`.

    In training, B are the rows of all replicas.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        loss: str,
        temperature: float,
        pooling: str,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        self.model = TextsModel(config, seed=seed, dtype=dtype)
        self._loss, self._temperature, self._pooling = (
            loss,
            temperature,
            pooling,
        )
        if loss != "softmax":
            self.accuracies = {}

    def outputs(self, batch: Batch) -> Totals:
        """Returns the vectors, of length 1."""
        return {"vectors": self._vectors(super().outputs(batch), batch)}

    def start_outputs(self, batch: Batch) -> Totals:
        """Returns what weights give that were not trained yet: means."""
        sequence = super().outputs(batch)
        return {"vectors": self._vectors(sequence, batch, pooling="mean")}

    def _vectors(
        self, outputs: Totals, batch: Batch, pooling: str | None = None
    ) -> tf.Tensor:
        mask = batch["input_mask"]
        rows = pool(
            outputs["sequence_output"],
            tf.reshape(mask, [-1, tf.shape(mask)[-1]]),
            pooling=pooling or self._pooling,
            normalizes=True,
        )
        return tf.reshape(rows, [-1, mask.shape[1], rows.shape[-1]])

    def _measure(
        self, outputs: Totals, batch: Batch, weights: tf.Tensor
    ) -> LossSums:
        vectors = self._vectors(outputs, batch)
        if self._loss == "softmax":
            return in_batch_sums(
                vectors, batch["text_hashes"], weights, self._temperature
            )
        cosines = tf.reduce_sum(vectors[:, 0] * vectors[:, 1], axis=-1)
        if self._loss == "cosine":
            return losses.regression_sums(
                cosines[:, None], batch["scores"], weights
            )
        return cosent_sums(cosines, batch["scores"], weights, self._temperature)


def cosent_sums(
    cosines: tf.Tensor,
    scores: tf.Tensor,
    weights: tf.Tensor,
    temperature: float,
) -> LossSums:
    """Returns the sums of the CoSENT loss of pairs, all float32 `[B]`.

    That is log(1 + sum exp((c - d) / temperature)) over all cosines c and d
    where the score of c is the lower one. It is of a batch as a whole, the
    same for each row.
    """
    (all_cosines, all_scores, all_weights), _ = _of_all_replicas(
        cosines, scores, weights
    )
    is_real = all_weights > 0
    is_lower = all_scores[:, None] < all_scores[None]
    is_lower &= is_real[:, None] & is_real[None]
    gaps = (all_cosines[:, None] - all_cosines[None]) / temperature
    gaps = tf.reshape(tf.where(is_lower, gaps, _NEVER), [-1])
    loss = tf.reduce_logsumexp(tf.concat([[0.0], gaps], 0))
    weight = tf.reduce_sum(weights)
    return LossSums(loss=weight * loss, weight=weight, correct=0.0)


def in_batch_sums(
    vectors: tf.Tensor,
    hashes: tf.Tensor,
    weights: tf.Tensor,
    temperature: float,
) -> LossSums:
    """Returns the sums of the cross entropy of the second texts of B rows.

    `vectors` are those of C texts, float32 `[B, C, H]` with length 1; `hashes`
    are equal for equal texts, int32 `[B, C]`. Texts that are equal to the
    second one of a row, or the second one of an equal first one, are not among
    its negatives, nor are rows with the weight 0.
    """
    num_rows, num_texts = tf.shape(weights)[0], vectors.shape[1]
    (all_vectors, all_hashes, all_weights), start = _of_all_replicas(
        vectors, hashes, weights
    )
    # All second texts, then all third ones: [(C - 1) x B, ...]
    candidates, others = (
        tf.concat(tf.unstack(values, axis=1)[1:], 0)
        for values in (all_vectors, all_hashes)
    )
    logits = tf.matmul(vectors[:, 0], candidates, transpose_b=True)
    labels = start + tf.range(num_rows)
    is_right = hashes[:, 1, None] == others[None]
    answers_same = hashes[:, 0, None] == all_hashes[None, :, 0]
    rest = tf.shape(others)[0] - tf.shape(answers_same)[1]
    is_right |= tf.pad(answers_same, [[0, 0], [0, rest]])
    is_real = tf.tile(all_weights > 0, [num_texts - 1])
    is_own = tf.range(tf.size(others))[None] == labels[:, None]
    logits = tf.where(
        is_own | (is_real & ~is_right), logits / temperature, _NEVER
    )
    return losses.cross_entropy_sums(logits, labels, weights)


def _of_all_replicas(*values: tf.Tensor) -> tuple[Any, Any]:
    """Returns the rows of all replicas, and the number of the first own one."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return values, 0
    try:
        gathered = [context.all_gather(each, axis=0) for each in values]
    except RuntimeError as error:
        raise ValueError(
            "On several devices, pairs of all of them are compared, which "
            "--gradient_accumulation_steps and --jit_compile do not allow."
        ) from error
    own = tf.shape(values[0])[0]
    return gathered, context.replica_id_in_sync_group * own
