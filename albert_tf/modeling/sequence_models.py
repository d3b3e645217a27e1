"""ALBERT that gives a sequence one of several labels, or a number.

Source: Devlin et al. 2019, section 4.1; google-research/albert,
`classifier_utils.create_model`.

ALBERT that says which of several texts fits best.

Source: Lan et al. 2020, appendix A.3 (RACE); google-research/albert,
`race_utils.create_model`.
"""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from albert_tf import config as config_lib
from albert_tf.modeling import dropout, initialization
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.heads import OutputLayer


class ClassifierModel(keras.Model):
    """An `AlbertModel` and a linear layer over its pooled output.

    Args:
        config: Shape of the model.
        num_labels: Number of labels, K; 1 for regression.
        dropout_prob: Share of the pooled output that is dropped in training.
        seed: Seed of the first values of the weights, and of dropout where
            the call gives none. The encoder's are those of
            `AlbertModel(config, seed=seed)`.
        dtype: Keras dtype policy; None for Keras' global one.
        name: Name of the model.

    Call arguments:
        inputs: Dict of what `AlbertModel` takes. Other entries are ignored.
        training: Whether to drop values.
        seed: Int tensor `[2]` that decides the dropout masks; None to draw
            one from the model's own generator.

    Returns:
        Dict of `logits`, float32 `[B, K]`; for regression the numbers.

    Raises:
        ValueError: `num_labels` or `dropout_prob` is impossible; or, when
            called, a sequence is longer than `max_position_embeddings`.
    """

    def __init__(
        self,
        config: config_lib.AlbertConfig,
        *,
        num_labels: int,
        dropout_prob: float = 0.1,
        seed: int = 0,
        dtype: Any = None,
        name: str = "classifier_model",
    ) -> None:
        if num_labels < 1:
            raise ValueError(
                "`num_labels` must be at least 1, which stands for regression. "
                f"Received: num_labels={num_labels}."
            )
        dropout.check_rate("dropout_prob", dropout_prob)
        super().__init__(dtype=dtype, name=name)
        self.config = config
        self.dropout_prob = dropout_prob
        self.albert = AlbertModel(config, seed=seed, dtype=self.dtype_policy)
        self.task_head = OutputLayer(
            num_labels,
            hidden_size=config.hidden_size,
            seed=initialization.derive_seed(seed, "task_head"),
            dtype="float32",
            name="task_head",
        )
        self.built = True

    def call(
        self,
        inputs: Mapping[str, Any],
        training: bool | None = None,
        seed: Any | None = None,
    ) -> dict[str, Any]:
        seed = self.albert.dropout_seed(training, seed)
        encoded = self.albert(inputs, training=training, seed=seed)
        pooled = dropout.dropout(
            encoded["pooled_output"],
            rate=self.dropout_prob,
            seed=seed,
            site=dropout.HEAD_SITE,
        )
        return {"logits": self.task_head(pooled)}


_INPUTS = ("input_ids", "input_mask", "segment_ids")


class MultipleChoiceModel(keras.Model):
    """A `ClassifierModel` with one output, applied to every choice.

    The choices of a question do not see each other; their logits compete in
    the softmax of the loss.

    Args:
        config: Shape of the model.
        dropout_prob: Share of the pooled output that is dropped in training.
        seed: Seed of the first values of the weights, and of dropout where
            the call gives none. They are those of
            `ClassifierModel(config, num_labels=1, seed=seed)`.
        dtype: Keras dtype policy; None for Keras' global one.
        name: Name of the model.

    Call arguments:
        inputs: Dict of int tensors `[B, C, S]`, C choices to a question, with
            the names that `AlbertModel` takes. Other entries are ignored.
        training: Whether to drop values.
        seed: Int tensor `[2]` that decides the dropout masks; None to draw
            one from the model's own generator.

    Returns:
        Dict of `logits`, float32 `[B, C]`.

    Raises:
        ValueError: `dropout_prob` is impossible; or, when called, a sequence
            is longer than `max_position_embeddings`.
    """

    def __init__(
        self,
        config: config_lib.AlbertConfig,
        *,
        dropout_prob: float = 0.1,
        seed: int = 0,
        dtype: Any = None,
        name: str = "multiple_choice_model",
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        self.config = config
        self.scorer = ClassifierModel(
            config,
            num_labels=1,
            dropout_prob=dropout_prob,
            seed=seed,
            dtype=self.dtype_policy,
        )
        self.built = True

    def call(
        self,
        inputs: Mapping[str, Any],
        training: bool | None = None,
        seed: Any | None = None,
    ) -> dict[str, Any]:
        _, num_choices, length = ops.shape(inputs["input_ids"])
        rows = {
            name: ops.reshape(inputs[name], (-1, length))  # [B x C, S]
            for name in _INPUTS
            if name in inputs
        }
        scores = self.scorer(rows, training=training, seed=seed)["logits"]
        return {"logits": ops.reshape(scores, (-1, num_choices))}
