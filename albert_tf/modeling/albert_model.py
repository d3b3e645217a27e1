"""The ALBERT encoder: token ids in, contextual vectors out.

Data flow: embeddings -> encoder -> pooler. A configuration with E = H and
`parameter_sharing="none"` makes it a BERT.

Source: Lan et al. 2020; google-research/albert, `modeling.AlbertModel`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor, layers
from albert_tf.modeling.base_model import BaseModel
from albert_tf.modeling.embeddings import Embeddings
from albert_tf.modeling.encoder import Encoder


class AlbertModel(BaseModel):
    """The encoder of Lan et al. 2020, with its pooler; built when created.

    ```python
    model = AlbertModel(AlbertConfig.from_json_file("albert_config.json"))
    outputs = model(tokenizer.batch(["A text."], max_seq_length=128))
    ```

    Args:
        output_hidden_states: Whether to return the output of every block,
            which can be large.
        global_segment: With an `attention_window`, segment whose tokens attend
            without a window, as `[CLS]` does; None for `[CLS]` alone.
        **kwargs: `seed` of the initial weights, and of dropout if the call has
            none; `dtype` and `name`, as for any Keras layer.

    Call arguments:
        inputs: Dict of int tensors `[B, S]`: `input_ids`; `input_mask`, 1 for
            a real token, 0 for padding (default: all 1); `segment_ids`
            (default: all 0).
        training: Whether to apply dropout, at the rates in the config.
        seed: Int tensor `[2]` that decides the dropout masks; None draws one
            from the model's own generator. Ignored unless `training`.
        depth: Number of layers to compute, from the first on; None for all.
        output_positions: Int tensor `[B, Q]`, the positions that the last
            block computes; the first must be 0, for `[CLS]`. None for all.
        encode: Function that replaces the method `encode` in training, such as
            `packing.encode`; its first argument is the model.

    Returns:
        Dict of float tensors in the compute dtype:
        `sequence_output` `[B, S, H]`, or `[B, Q, H]`: the output of the last
        block; rows where `input_mask` is 0 hold values that must not be used.
        `pooled_output` `[B, H]`: the vector of `[CLS]` after a linear layer
        and tanh. `embedding_output` `[B, S, E]`: before the projection to H.
        With `output_hidden_states`, also `hidden_states`, a list of
        `[B, S, H]`: the projected embeddings, then the output of every block.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        output_hidden_states: bool = False,
        global_segment: int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs["name"] = kwargs.get("name") or "albert"
        super().__init__(config, **kwargs)
        self.output_hidden_states = output_hidden_states
        self.global_segment = global_segment
        seed, derive = self.seed, layers.derive_seed
        self.dropout_generator = keras.random.SeedGenerator(
            derive(seed, "dropout"), name="dropout"
        )
        self.embeddings = Embeddings(
            config, seed=derive(seed, "embeddings"), dtype=self.dtype_policy
        )
        self.encoder = Encoder(
            config, seed=derive(seed, "encoder"), dtype=self.dtype_policy
        )
        hidden_size = config.hidden_size
        self.pooler = layers.dense(self, "pooler", hidden_size, hidden_size)
        self.build({name: tensor.shape for name, tensor in self.input.items()})

    def build(self, input_shape: object = None) -> None:
        self.embeddings.build((None, None))
        self.encoder.build((None, None, self.config.embedding_size))
        self.pooler.build((None, self.config.hidden_size))

    def enable_lora(self, rank: int) -> None:
        """Adds trainable low-rank matrices, and freezes other weights.

        The product of two matrices is added to each query and value kernel;
        their biases stay trainable. Saving merges it. Source: Hu et al. 2021.
        """
        for layer in self._flatten_layers(include_self=False):
            if layer.name in ("query", "value"):
                layer.enable_lora(rank)
            elif not any(layer._flatten_layers(include_self=False)):
                layer.trainable = False

    def dropout_seed(
        self, training: bool | None, seed: Tensor | None
    ) -> Tensor:
        """Returns the seed of one call, int `[2]`; None if not `training`.

        A model whose head has dropout passes it to both encoder and head.
        """
        if not training:
            return None
        return self.dropout_generator.next() if seed is None else seed

    def call(
        self,
        inputs: Mapping[str, Tensor],
        training: bool | None = None,
        seed: Tensor | None = None,
        depth: int | None = None,
        output_positions: Tensor | None = None,
        encode: Callable[..., tuple[Tensor, list[Tensor]]] | None = None,
    ) -> dict[str, Tensor]:
        embedded, hidden_states = (encode or AlbertModel.encode)(
            self,
            inputs,
            seed=self.dropout_seed(training, seed),
            depth=depth,
            output_positions=output_positions,
        )
        sequence_output = hidden_states[-1]  # [B, S, H]
        outputs = {
            "sequence_output": sequence_output,
            "pooled_output": self.pool(sequence_output),
            "embedding_output": embedded,
        }
        if self.output_hidden_states:
            outputs["hidden_states"] = hidden_states
        return outputs

    def encode(
        self,
        inputs: Mapping[str, Tensor],
        *,
        seed: Tensor | None,
        depth: int | None,
        output_positions: Tensor | None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Returns the embeddings, and the hidden states of `Encoder`.

        For the arguments, see `AlbertModel`; without a `seed`, no dropout.
        """
        input_ids, input_mask, segment_ids = self.all_inputs(inputs)
        embedded = self.embeddings(input_ids, segment_ids, seed=seed)
        hidden_states = self.encoder(
            embedded,  # [B, S, E]
            self.attention_mask(input_mask, segment_ids),
            seed=seed,
            depth=depth,
            output_positions=output_positions,
        )
        return embedded, hidden_states

    def all_inputs(
        self, inputs: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns ids, mask and segments, `[B, S]`; fills in defaults."""
        input_ids = ops.convert_to_tensor(inputs["input_ids"])
        input_mask = inputs.get("input_mask", ops.ones_like(input_ids))
        segment_ids = inputs.get("segment_ids", ops.zeros_like(input_ids))
        return input_ids, input_mask, segment_ids

    def attention_mask(self, input_mask: Tensor, segment_ids: Tensor) -> Tensor:
        """Returns the mask, int `[B, 1, 1, S]`, or as in `windows`."""
        return self.encoder.attention_sublayers[0].attention_mask(
            input_mask, segment_ids, self.global_segment
        )

    def pool(self, sequence_output: Tensor) -> Tensor:
        """Applies a linear layer and tanh to the `[CLS]` vectors, `[B, H]`."""
        return ops.tanh(self.pooler(sequence_output[:, 0]))


class ModelWithHead(BaseModel):
    """Base class of models with an encoder, `albert`, and a head."""

    # Argument of `albert`.
    global_segment: int | None = None

    def __init__(self, config: AlbertConfig, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self.albert = AlbertModel(
            config,
            global_segment=self.global_segment,
            seed=self.seed,
            dtype=self.dtype_policy,
        )
