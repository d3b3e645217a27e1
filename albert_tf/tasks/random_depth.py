"""The outputs that a loss is measured on: of the whole model, or of two depths.

Data flow: batch -> [this file] -> model -> outputs of all layers, and of fewer.
"""

from typing import Any

from keras import ops

from albert_tf.tasks.task import Batch, Totals


def outputs_by_depth(
    model: Any, batch: Batch, *, random_depth: bool = False, **options: Any
) -> list[Totals]:
    """Returns the outputs of a model, and those of a random depth, if wanted.

    `options` are arguments of the model's call.
    """
    inputs = model.inputs_of(batch)
    if not random_depth:
        return [model(inputs, **options)]
    twice = {name: ops.concatenate([x, x]) for name, x in inputs.items()}
    outputs = model(twice, random_depth=True, **options)
    halves = {name: ops.split(x, 2) for name, x in outputs.items()}
    return [{n: x[i] for n, x in halves.items()} for i in range(2)]
