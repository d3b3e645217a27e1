"""ALBERT that finds the span of an answer: SQuAD 1.1 and SQuAD 2.0.

`SpanModel` (1.1) scores starts and ends independently. `BeamSpanModel` (2.0)
scores the end once for each of several starts (the true start in training, the
most likely starts in inference), and whether there is an answer at all.

Source: Devlin et al. 2019, section 4.2; Lan et al. 2020, appendix A.3, after
Yang et al. 2019 (XLNet); google-research/albert,
`squad_utils.create_v1_model` and `squad_utils.create_v2_model`.
"""

from collections.abc import Mapping
from typing import Any

from keras import ops
from keras.layers import InputSpec

from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor, base, dropout, layers
from albert_tf.modeling.albert_model import ModelWithHead

# TF1: the logit of a position where no answer can start or end.
FORBIDDEN_LOGIT = -1e30
_QUESTION_SEGMENT = 0


class SpanModel(ModelWithHead):
    """An `AlbertModel` with two logits for each position.

    As in the reference, nothing is masked: positions of the question and of
    padding have logits too, and the head has no dropout.

    Returns:
        Dict of `start_logits` and `end_logits`, float32 `[B, S]`.
    """

    global_segment = _QUESTION_SEGMENT

    def __init__(self, config: AlbertConfig, **kwargs: object) -> None:
        super().__init__(config, **kwargs)
        self.span_head = layers.output_layer(self, "span_head", 2)
        self.build_layers()

    def call(
        self,
        inputs: Mapping[str, Tensor],
        training: bool | None = None,
        seed: Tensor | None = None,
        **options: object,
    ) -> dict[str, Tensor]:
        encoded = self.albert(inputs, training=training, seed=seed, **options)
        logits = self.span_head(encoded["sequence_output"])  # [B, S, 2]
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}


class BeamSpanHead(base.AlbertLayer):
    """Scores starts, ends given a start, and the absence of an answer.

    Computes in float32 in every precision, as the head of `SpanModel` does;
    `dropout_prob` is the rate of the vector that decides on the absence.

    Call arguments:
        sequence_output: Float tensor `[B, S, H]`.
        p_mask: Tensor `[B, S]`, 1 where no answer can start or end: question,
            separators, padding; 0 for the paragraph and for `[CLS]`, where
            the answer of an unanswerable question lies.
        start_positions: Int tensor `[B]`, the true starts; None in inference.
        num_starts: Number of starts to keep in inference, K1.
        num_ends: Number of ends to keep for each of them, K2.

    Returns:
        Dict of `cls_logits` `[B]`, larger where there is no answer, and, given
        the true starts, `start_log_probs` and `end_log_probs` `[B, S]`;
        otherwise, largest first, `start_top_log_probs` and `start_top_index`
        `[B, K1]`, `end_top_log_probs` and `end_top_index` `[B, K1 x K2]`,
        where entry `i x K2 + j` is the j-th end of the i-th start.
    """

    def __init__(
        self, config: AlbertConfig, *, dropout_prob: float, **kwargs: Any
    ) -> None:
        super().__init__(config, **(kwargs | {"dtype": "float32"}))
        self.dropout_prob = dropout_prob
        dense, hidden = layers.dense, config.hidden_size
        self.start_dense = dense(self, "start_dense", hidden, 1)
        self.end_dense_0 = dense(self, "end_dense_0", 2 * hidden, hidden)
        # `end_log_probs` reads it in halves, without the scales of columns.
        self.end_dense_0.stays_float = True
        self.end_layer_norm = layers.LayerNorm(
            hidden, dtype="float32", name="end_layer_norm"
        )
        self.end_dense_1 = dense(self, "end_dense_1", hidden, 1)
        self.answer_dense_0 = dense(self, "answer_dense_0", 2 * hidden, hidden)
        # TF1: the only linear layer without a bias.
        self.answer_dense_1 = dense(
            self, "answer_dense_1", hidden, 1, use_bias=False
        )

    def call(
        self,
        sequence_output: Tensor,
        p_mask: Tensor,
        *,
        start_positions: Tensor | None = None,
        num_starts: int = 1,
        num_ends: int = 1,
        seed: Tensor | None = None,
    ) -> dict[str, Tensor]:
        start_logits = self.start_dense(sequence_output)[..., 0]  # [B, S]
        start_log_probs = masked_log_probs(start_logits, p_mask)
        cls_logits = self._cls_logits(sequence_output, start_log_probs, seed)
        if start_positions is not None:
            starts = ops.reshape(start_positions, (-1, 1))
            ends = self.end_log_probs(sequence_output, starts, p_mask)
            return {
                "cls_logits": cls_logits,
                "start_log_probs": start_log_probs,
                "end_log_probs": ends[:, 0],
            }
        start_values, starts = ops.top_k(start_log_probs, num_starts)
        log_probs = self.end_log_probs(sequence_output, starts, p_mask)
        end_values, ends = ops.top_k(log_probs, num_ends)  # [B, K1, K2]
        flat = (-1, num_starts * num_ends)
        return {
            "cls_logits": cls_logits,
            "start_top_log_probs": start_values,
            "start_top_index": ops.cast(starts, "int32"),
            "end_top_log_probs": ops.reshape(end_values, flat),
            "end_top_index": ops.cast(ops.reshape(ends, flat), "int32"),
        }

    def compute_output_shape(self, input_shape: Any) -> Any:
        # Those of training.
        return {
            "cls_logits": input_shape[:1],
            "start_log_probs": input_shape[:2],
            "end_log_probs": input_shape[:2],
        }

    def end_log_probs(
        self, sequence_output: Tensor, starts: Tensor, p_mask: Tensor
    ) -> Tensor:
        """Returns log probabilities `[B, K, S]` of the end for starts `[B, K]`.

        The reference multiplies the vectors of position and start, joined; the
        halves of the product give the same sum without so wide a tensor.
        """
        size = self.config.hidden_size
        kernel = ops.convert_to_tensor(self.end_dense_0.kernel)
        of_starts = ops.matmul(
            layers.gather_positions(sequence_output, starts), kernel[size:]
        )  # [B, K, H]
        of_positions = ops.matmul(sequence_output, kernel[:size])
        pairs = of_positions[:, None] + of_starts[:, :, None]  # [B, K, S, H]
        hidden = self.end_layer_norm(ops.tanh(pairs + self.end_dense_0.bias))
        logits = self.end_dense_1(hidden)[..., 0]
        return masked_log_probs(logits, ops.convert_to_tensor(p_mask)[:, None])

    def _cls_logits(
        self,
        sequence_output: Tensor,
        start_log_probs: Tensor,
        seed: Tensor | None,
    ) -> Tensor:
        weights = ops.exp(start_log_probs)[:, None]  # [B, 1, S]
        start_summary = ops.matmul(weights, sequence_output)[:, 0]  # [B, H]
        both = ops.concatenate([start_summary, sequence_output[:, 0]], axis=-1)
        hidden = ops.tanh(self.answer_dense_0(both))
        rate, index = self.dropout_prob, dropout.HEAD_INDEX
        hidden = dropout.dropout(hidden, rate, seed, index)
        return self.answer_dense_1(hidden)[:, 0]


class BeamSpanModel(ModelWithHead):
    """An `AlbertModel` with a `BeamSpanHead`, whose outputs it returns.

    Args:
        start_n_top: Number of most likely starts kept in inference, K1.
        end_n_top: Number of ends kept for each of them, K2.
        dropout_prob: As for `BeamSpanHead`.

    Call arguments:
        inputs: Dict of the inputs of `AlbertModel`, and `p_mask` `[B, S]`;
            with teacher forcing, also `start_positions`, int `[B]`.
        teacher_forcing: Whether ends are scored given the true start, as the
            loss needs; None for the value of `training`.
    """

    global_segment = _QUESTION_SEGMENT

    def __init__(
        self,
        config: AlbertConfig,
        *,
        start_n_top: int = 5,
        end_n_top: int = 5,
        dropout_prob: float = 0.1,
        **kwargs: object,
    ) -> None:
        super().__init__(config, **kwargs)
        self.start_n_top = start_n_top
        self.end_n_top = end_n_top
        self.dropout_prob = dropout_prob
        self.beam_span_head = BeamSpanHead(
            config,
            dropout_prob=dropout_prob,
            seed=layers.derive_seed(self.seed, "beam_span_head"),
        )
        self.build_layers()

    def input_specs(self) -> dict[str, InputSpec]:
        return super().input_specs() | {"p_mask": InputSpec("float32", ndim=2)}

    def call(
        self,
        inputs: Mapping[str, Tensor],
        training: bool | None = None,
        seed: Tensor | None = None,
        teacher_forcing: bool | None = None,
        **options: object,
    ) -> dict[str, Tensor]:
        forces = training if teacher_forcing is None else teacher_forcing
        start_positions = inputs["start_positions"] if forces else None
        seed = self.albert.dropout_seed(training, seed)
        encoded = self.albert(inputs, training=training, seed=seed, **options)
        outputs: dict[str, Tensor] = self.beam_span_head(
            encoded["sequence_output"],
            inputs["p_mask"],
            start_positions=start_positions,
            num_starts=self.start_n_top,
            num_ends=self.end_n_top,
            seed=seed,
        )
        return outputs


def masked_log_probs(logits: Tensor, p_mask: Tensor) -> Tensor:
    """Returns log probabilities over the positions where `p_mask` is 0."""
    p_mask = ops.cast(p_mask, "float32")
    masked = logits * (1.0 - p_mask) + FORBIDDEN_LOGIT * p_mask
    return ops.log_softmax(masked, axis=-1)
