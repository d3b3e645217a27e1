"""Keras layers and models of ALBERT, written in `keras.ops` alone. Floor 2.

Letters of the shape comments: B batch, S sequence, E embedding, H hidden,
N heads, D head size (H = N x D), F feed-forward, V vocabulary, P masked
positions, C choices, K labels or beams.

Every layer and model takes the `config` of the whole model, unless it takes
sizes; the `seed` of its initial weights; `dtype`, a Keras dtype policy; and a
`name`. Checkpoints identify the variables of heads by their names.

A model is called on a dict of tensors: its own inputs, and those that only
other models have, which it ignores; any other name is an error. Its call
arguments are those of `AlbertModel`. Its encoder starts with the weights of an
`AlbertModel` of the same seed.

One of these arguments is handed down to all layers: `seed`, an int tensor
`[2]`, decides the dropout masks; without one, a layer drops nothing.
`dropout_index` is the number, in the model, of the first dropout of a layer.
"""

from typing import Any, TypeAlias

# A tensor of the back end, eager, in a graph or symbolic; or what `keras.ops`
# makes one of: a NumPy array, a variable, a number. They have no common class.
Tensor: TypeAlias = Any
