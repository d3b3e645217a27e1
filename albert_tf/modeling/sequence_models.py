"""ALBERT for classification, regression and multiple choice.

Source: Devlin et al. 2019, section 4.1; Lan et al. 2020, appendix A.3 (RACE);
google-research/albert, `classifier_utils.create_model`,
`race_utils.create_model`.
"""

from collections.abc import Mapping
from typing import Any

from keras import ops

from albert_tf import checks
from albert_tf import config as config_lib
from albert_tf.modeling import base, dropout, layers
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.layers import OutputLayer


@base.register
class ClassifierModel(base.SerializableModel):
    """An `AlbertModel` with a linear layer over its pooled output.

    The encoder starts as `AlbertModel(config, seed=seed)`. Arguments that are
    not described here are those of `AlbertModel`.

    Args:
        num_labels: Number of labels, K; 1 for regression.
        dropout_prob: Dropout rate of the pooled output in training.
        trains_exits: Whether to apply the head to the output of every block
            in training, for early exit.

    Call arguments:
        inputs: Dict of the inputs of `AlbertModel`. Other entries are ignored.

    Returns:
        Dict of `logits`, float32 `[B, K]`; in regression, the numbers. With
        `trains_exits`, in training also `exit_logits`, float32 `[L, B, K]`:
        those of each of L blocks, the first block first.

    Raises:
        ValueError: `num_labels` or `dropout_prob` is out of range; or, when
            called, an input is missing or of the wrong kind, or a sequence is
            longer than `max_position_embeddings`.
    """

    def __init__(
        self,
        config: config_lib.AlbertConfig,
        *,
        num_labels: int,
        dropout_prob: float = 0.1,
        trains_exits: bool = False,
        seed: int = 0,
        dtype: Any = None,
        name: str = "classifier_model",
    ) -> None:
        checks.check_integer("num_labels", num_labels, at_least=1)
        checks.check_number("dropout_prob", dropout_prob, at_least=0, below=1)
        super().__init__(dtype=dtype, name=name)
        self.config = config
        self.num_labels = num_labels
        self.dropout_prob = dropout_prob
        self.trains_exits = trains_exits
        self.seed = seed
        self.albert = AlbertModel(
            config,
            output_hidden_states=trains_exits,
            seed=seed,
            dtype=self.dtype_policy,
        )
        self.task_head = OutputLayer(
            num_labels,
            hidden_size=config.hidden_size,
            seed=layers.derive_seed(seed, "task_head"),
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
        logits = self._logits(encoded["pooled_output"], seed)
        if not (self.trains_exits and training):
            return {"logits": logits}
        exits = [
            self._logits(ops.tanh(self.albert.pooler(hidden[:, 0])), seed)
            for hidden in encoded["hidden_states"][1:-1]
        ]
        return {"logits": logits, "exit_logits": ops.stack([*exits, logits])}

    def _logits(self, pooled: Any, seed: Any | None) -> Any:
        pooled = dropout.dropout(
            pooled,
            rate=self.dropout_prob,
            seed=seed,
            site=dropout.HEAD_SITE,
        )
        return self.task_head(pooled)


@base.register
class MultipleChoiceModel(base.SerializableModel):
    """A `ClassifierModel` with one output, applied to every choice.

    The choices of a question are encoded independently; their logits compete
    in the softmax of the loss. The weights start as those of
    `ClassifierModel(config, num_labels=1, seed=seed)`. Arguments that are not
    described here are those of `AlbertModel`.

    Args:
        dropout_prob: Dropout rate of the pooled output in training.
        trains_exits: As for `ClassifierModel`.

    Call arguments:
        inputs: Dict of the inputs of `AlbertModel`, each an int tensor
            `[B, C, S]` with C choices a question. Other entries are ignored.

    Returns:
        Dict of `logits`, float32 `[B, C]`, and, as for `ClassifierModel`,
        `exit_logits`, float32 `[L, B, C]`.

    Raises:
        ValueError: `dropout_prob` is out of range; or, when called, an input
            is missing or of the wrong kind, or a sequence is longer than
            `max_position_embeddings`.
    """

    def __init__(
        self,
        config: config_lib.AlbertConfig,
        *,
        dropout_prob: float = 0.1,
        trains_exits: bool = False,
        seed: int = 0,
        dtype: Any = None,
        name: str = "multiple_choice_model",
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        self.config = config
        self.dropout_prob = dropout_prob
        self.trains_exits = trains_exits
        self.seed = seed
        self.scorer = ClassifierModel(
            config,
            num_labels=1,
            dropout_prob=dropout_prob,
            trains_exits=trains_exits,
            seed=seed,
            dtype=self.dtype_policy,
        )
        self.scorer.build(self.scorer.input_shapes())
        self.built = True

    def input_specs(self) -> dict[str, base.Spec]:
        return base.encoder_specs(rank=3)

    def call(
        self,
        inputs: Mapping[str, Any],
        training: bool | None = None,
        seed: Any | None = None,
    ) -> dict[str, Any]:
        _, num_choices, length = ops.shape(inputs["input_ids"])
        rows = {
            name: ops.reshape(inputs[name], (-1, length))  # [B x C, S]
            for name in self.input_specs()
            if name in inputs
        }
        scores = self.scorer(rows, training=training, seed=seed)
        shapes = {
            "logits": (-1, num_choices),
            "exit_logits": (
                len(self.scorer.albert.encoder.blocks),
                -1,
                num_choices,
            ),
        }
        return {
            name: ops.reshape(values, shapes[name])
            for name, values in scores.items()
        }
