"""Outputs of all layers and of fewer, a number that is drawn for each step.

A model that is trained on both can be used at every depth. A training step
calls `outputs` with `--random_depth`.

Source: Fan et al. 2020, "Reducing Transformer Depth on Demand with Structured
Dropout", for a depth that is drawn.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

from albert_tf.modeling import Tensor, dropout, layers
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.base_model import BaseModel

_DROPOUT_INDEX = 2  # of the draw of the depth
Encode = Callable[..., tuple[Tensor, list[Tensor]]]


def outputs(
    model: BaseModel,
    batch: Mapping[str, Any],
    *,
    encode: Encode = AlbertModel.encode,
    **options: object,
) -> list[dict[str, Tensor]]:
    """Returns the outputs of a model for a batch, and outputs of fewer layers.

    `options` are arguments of a call, which must be one of training; `encode`
    computes the hidden states.
    """
    inputs = model.inputs_of(batch)
    twice = {name: ops.concatenate([x, x]) for name, x in inputs.items()}
    both = model(
        twice, encode=functools.partial(_encode, encode=encode), **options
    )
    halves = {name: ops.split(x, 2) for name, x in both.items()}
    return [{n: x[i] for n, x in halves.items()} for i in range(2)]


def _encode(
    albert: AlbertModel,
    inputs: Mapping[str, Tensor],
    *,
    encode: Encode,
    seed: Tensor,
    depth: int | None,
    output_positions: Tensor | None,
) -> tuple[Tensor, list[Tensor]]:
    """Encodes the first half of the rows, which the second half repeats.

    The last of the hidden states has all rows: the second half is the output
    of an earlier layer.
    """
    num_rows = ops.shape(inputs["input_ids"])[0] // 2
    inputs = {name: rows[:num_rows] for name, rows in inputs.items()}
    if output_positions is not None:
        output_positions = output_positions[:num_rows]
    embedded, hidden_states = encode(
        albert,
        inputs,
        seed=seed,
        depth=depth,
        output_positions=output_positions,
    )
    earlier = hidden_states[:: albert.config.inner_group_num][1:-1]
    if output_positions is not None:
        earlier = [
            layers.gather_positions(hidden, output_positions)
            for hidden in earlier
        ]
    generator = dropout.SeedOfCall(dropout.fold_in(seed, _DROPOUT_INDEX))
    index = keras.random.randint((), 0, len(earlier), seed=generator)
    sequence_output = ops.concatenate(
        [hidden_states[-1], ops.stack(earlier)[index]]
    )
    return embedded, [*hidden_states[:-1], sequence_output]
