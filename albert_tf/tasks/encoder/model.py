"""Vectors of texts, the model halves: answers, and training on pairs.

Source: Reimers and Gurevych 2019, "Sentence-BERT"; sentence-transformers 6,
`CoSENTLoss`, `CosineSimilarityLoss`, `MultipleNegativesRankingLoss`.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor, losses
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.losses import LossSums
from albert_tf.tasks.finetuning import MeanLossTask
from albert_tf.tasks.task import AnswerTask, Batch, Totals

if TYPE_CHECKING:
    from albert_tf.tasks.encoder.data import SimilarityData, VectorData
    from albert_tf.tasks.encoder.spec import EncoderSettings

_NEVER = -1e9  # a score that a softmax turns to 0


def pool(
    sequence: Tensor,
    input_mask: Tensor,
    data: "VectorData | SimilarityData | EncoderSettings",
) -> Tensor:
    """Returns vectors, float32 `[..., H]`, of the last layer, `[..., S, H]`.

    `data` has `pooling` and `normalizes`, see `VectorData`.
    """
    sequence = ops.cast(sequence, "float32")
    vector = ops.take(sequence, 0, axis=-2)
    if data.pooling == "mean":
        mask = ops.expand_dims(ops.cast(input_mask, "float32"), -1)
        vector = ops.sum(sequence * mask, -2) / ops.sum(mask, -2)
    if data.normalizes:
        vector = ops.normalize(vector)
    return vector


class VectorOutputs(AnswerTask):
    """Computes `vector`, float32 `[B, H]`, as `data` says; see `VectorData`."""

    def __init__(self, data: "VectorData", model: Any) -> None:
        super().__init__(model)
        self._data = data

    def final_outputs(self, batch: Batch) -> Totals:
        """Returns the vectors of a batch."""
        sequence = super().final_outputs(batch)["sequence_output"]
        return {"vector": pool(sequence, batch["input_mask"], self._data)}


class TextsModel(AlbertModel):
    """An `AlbertModel` of C texts a row: `[B, C, S]` become B x C rows."""

    input_rank = 3

    def call(
        self,
        inputs: Mapping[str, Tensor],
        training: bool | None = None,
        seed: Tensor | None = None,
        *args: Any,
        **options: Any,
    ) -> Totals:
        """Encodes each text on its own; returns `[B, C, S, H]`."""
        shape = ops.shape(inputs["input_ids"])
        rows = {n: ops.reshape(x, (-1, shape[-1])) for n, x in inputs.items()}
        sequence = super().call(rows, training, seed, *args, **options)[
            "sequence_output"
        ]
        shape = (*shape, self.config.hidden_size)
        return {"sequence_output": ops.reshape(sequence, shape)}


class SimilarityTask(MeanLossTask):
    """Trains the cosines of the vectors of pairs, of all replicas together.

    `data` are a `SimilarityData`, and `loss` and `temperature` flags. Outputs
    are `vectors`, float32 `[B, C, H]` of length 1, and `logits`, `[B, 1]`.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        data: "SimilarityData",
        loss: str,
        temperature: float,
        **options: Any,
    ) -> None:
        self.model = TextsModel(config, **options)
        self._data, self._loss, self._temperature = data, loss, temperature
        if loss != "softmax":
            self.accuracies = {}

    def outputs(self, batch: Batch) -> Totals:
        """Returns the outputs of `SimilarityData`."""
        vectors = self._unit_vectors(super().outputs(batch), batch)
        return {"vectors": vectors, "logits": _cosines(vectors)[:, None]}

    compares_start = True

    def start_outputs(self, batch: Batch) -> Totals:
        """Returns the vectors before the training: means over tokens."""
        sequence = super().outputs(batch)["sequence_output"]
        mean = dataclasses.replace(self._data, pooling="mean")
        return {"vectors": pool(sequence, batch["input_mask"], mean)}

    def loss(
        self, batch: Batch, loss_denominators: Totals, **options: Any
    ) -> tuple[Tensor, Totals]:
        """See `Task`; replicas share the seed of a random depth."""
        if "compute_outputs" in options:
            (seeds,), _ = _of_all_replicas(options["seed"])
            options["seed"] = seeds[:2]
        return super().loss(batch, loss_denominators, **options)

    def _unit_vectors(self, outputs: Totals, batch: Batch) -> Tensor:
        sequence = outputs["sequence_output"]
        vectors = pool(sequence, batch["input_mask"], self._data)
        return ops.normalize(vectors)

    def _measure(
        self, outputs: Totals, batch: Batch, weights: Tensor
    ) -> LossSums:
        vectors = self._unit_vectors(outputs, batch)
        if self._loss == "softmax":
            hashes = batch["text_hashes"]
            return in_batch_sums(vectors, hashes, weights, self._temperature)
        cosines, scores = _cosines(vectors), batch["scores"]
        if self._loss == "cosine":
            return losses.regression_sums(cosines[:, None], scores, weights)
        return cosent_sums(cosines, scores, weights, self._temperature)


def _cosines(vectors: Tensor) -> Tensor:
    """Returns the cosines of the first two of C vectors of length 1, `[B]`."""
    return ops.sum(vectors[:, 0] * vectors[:, 1], axis=-1)


def cosent_sums(
    cosines: Tensor,
    scores: Tensor,
    weights: Tensor,
    temperature: float,
) -> LossSums:
    """Returns the sums of the CoSENT loss of pairs, all float32 `[B]`.

    That is log(1 + sum exp((c - d) / temperature)) over all cosines c and d
    where the score of c is the lower one; of a batch as a whole.
    """
    (cosines, scores, all_weights), _ = _of_all_replicas(
        cosines, scores, weights
    )
    is_real = all_weights > 0
    is_lower = (scores[:, None] < scores) & is_real[:, None] & is_real
    gaps = (cosines[:, None] - cosines) / temperature
    gaps = ops.reshape(ops.where(is_lower, gaps, _NEVER), (-1,))
    loss = ops.logsumexp(ops.pad(gaps, [[1, 0]]))
    weight = ops.sum(weights)
    return LossSums(loss=weight * loss, weight=weight, correct=0.0)


def in_batch_sums(
    vectors: Tensor,
    hashes: Tensor,
    weights: Tensor,
    temperature: float,
) -> LossSums:
    """Returns the sums of the cross entropy of the second texts of B rows.

    `vectors` of C texts are float32 `[B, C, H]` with length 1; `hashes`
    are equal for equal texts, and 0 for empty ones, int32 `[B, C]`. Texts that
    are equal to the first or the second one of a row, or the second one of an
    equal first one, are not among its negatives, nor are empty texts and rows
    with the weight 0.
    """
    (all_vectors, all_hashes, all_weights), start = _of_all_replicas(
        vectors, hashes, weights
    )
    # All second texts, then all third ones: [(C - 1) x B, ...]
    candidates, others = (
        ops.concatenate(ops.unstack(values, vectors.shape[1], axis=1)[1:])
        for values in (all_vectors, all_hashes)
    )
    is_right = (hashes[:, 0, None] == others) | (hashes[:, 1, None] == others)
    is_same = hashes[:, 0, None] == all_hashes[:, 0]  # [b, B]
    rest = ops.shape(is_right)[1] - ops.shape(is_same)[1]
    is_right |= ops.pad(is_same, [[0, 0], [0, rest]])
    is_real = ops.tile(all_weights > 0, [vectors.shape[1] - 1]) & (others != 0)
    labels = start + ops.arange(ops.shape(weights)[0])
    is_own = ops.arange(ops.shape(others)[0]) == labels[:, None]
    logits = ops.matmul(vectors[:, 0], ops.transpose(candidates))
    logits = ops.where(
        is_own | (is_real & ~is_right), logits / temperature, _NEVER
    )
    return losses.cross_entropy_sums(logits, labels, weights)


def _of_all_replicas(*values: Tensor) -> tuple[Any, Any]:
    """Returns the rows of all replicas, and the number of the first own one."""
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        if values[0].shape[0] == 1:
            raise ValueError(
                "A pair is compared with the other rows of its batch, and "
                "this batch has one row. Pass a larger --train_batch_size, or "
                "fewer --gradient_accumulation_steps."
            )
        return values, 0
    # Arrays of a batch have no device, which a worker with one device needs.
    values = tuple(map(tf.identity, values))
    try:
        gathered = [context.all_gather(each, axis=0) for each in values]
    except RuntimeError as error:
        raise ValueError(
            "On several devices, pairs of all of them are compared, which "
            "--gradient_accumulation_steps and --jit_compile do not allow."
        ) from error
    return gathered, context.replica_id_in_sync_group * tf.shape(values[0])[0]
