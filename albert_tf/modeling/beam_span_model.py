"""ALBERT that finds an answer or says that there is none: SQuAD 2.0.

Source: Lan et al. 2020, appendix A.3, after Yang et al. 2019 (XLNet);
google-research/albert, `squad_utils.create_v2_model`.
"""

from collections.abc import Mapping
from typing import Any

import keras

from albert_tf import config as config_lib
from albert_tf.modeling import dropout, initialization
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.beam_span_head import BeamSpanHead


class BeamSpanModel(keras.Model):
    """An `AlbertModel` and a `BeamSpanHead`.

    Args:
        config: Shape of the model.
        start_n_top: Number of starts that are followed in inference, K1.
        end_n_top: Number of ends kept for each of them, K2.
        dropout_prob: Share that is dropped, in training, of the vector that
            tells whether there is an answer.
        seed: Seed of the first values of the weights, and of dropout where
            the call gives none. The encoder's are those of
            `AlbertModel(config, seed=seed)`.
        dtype: Keras dtype policy; None for Keras' global one.
        name: Name of the model.

    Call arguments:
        inputs: Dict of what `AlbertModel` takes, and `p_mask` `[B, S]`, 1
            where no answer can start or end; with teacher forcing, also
            `start_positions` int `[B]`. Other entries are ignored.
        training: Whether to drop values.
        seed: Int tensor `[2]` that decides the dropout masks; None to draw
            one from the model's own generator.
        teacher_forcing: Whether the end is looked for given the true start,
            which the loss wants, and not the likeliest ones, of which an
            answer is chosen; None for whether it is training.

    Returns:
        Dict of what `BeamSpanHead` returns: `cls_logits`, and either
        `start_log_probs`, `end_log_probs`, or `start_top_log_probs`,
        `start_top_index`, `end_top_log_probs`, `end_top_index`.

    Raises:
        ValueError: A number of beams or `dropout_prob` is impossible; or,
            when called, a sequence is longer than `max_position_embeddings`,
            or shorter than the beams want.
    """

    def __init__(
        self,
        config: config_lib.AlbertConfig,
        *,
        start_n_top: int = 5,
        end_n_top: int = 5,
        dropout_prob: float = 0.1,
        seed: int = 0,
        dtype: Any = None,
        name: str = "beam_span_model",
    ) -> None:
        _check_beams(start_n_top, end_n_top)
        dropout.check_rate("dropout_prob", dropout_prob)
        super().__init__(dtype=dtype, name=name)
        self.config = config
        self.start_n_top = start_n_top
        self.end_n_top = end_n_top
        self.albert = AlbertModel(config, seed=seed, dtype=self.dtype_policy)
        self.beam_span_head = BeamSpanHead(
            config,
            dropout_prob=dropout_prob,
            seed=initialization.derive_seed(seed, "beam_span_head"),
        )
        self.built = True

    def call(
        self,
        inputs: Mapping[str, Any],
        training: bool | None = None,
        seed: Any | None = None,
        teacher_forcing: bool | None = None,
    ) -> dict[str, Any]:
        if teacher_forcing is None:
            teacher_forcing = bool(training)
        seed = self.albert.dropout_seed(training, seed)
        encoded = self.albert(inputs, training=training, seed=seed)
        if not teacher_forcing:
            self._check_length(inputs["input_ids"].shape[1])
        return self.beam_span_head(
            encoded["sequence_output"],
            inputs["p_mask"],
            start_positions=(
                inputs["start_positions"] if teacher_forcing else None
            ),
            num_starts=self.start_n_top,
            num_ends=self.end_n_top,
            seed=seed,
        )

    def _check_length(self, length: int | None) -> None:
        wanted = max(self.start_n_top, self.end_n_top)
        if length is not None and length < wanted:
            raise ValueError(
                f"Sequences of {length} positions have no {wanted} to choose "
                "from. Pad them, or lower `start_n_top` and `end_n_top`. "
                f"Received: start_n_top={self.start_n_top}, "
                f"end_n_top={self.end_n_top}."
            )


def _check_beams(start_n_top: int, end_n_top: int) -> None:
    if min(start_n_top, end_n_top) < 1:
        raise ValueError(
            "`start_n_top` and `end_n_top` must be at least 1. Received: "
            f"start_n_top={start_n_top}, end_n_top={end_n_top}."
        )
