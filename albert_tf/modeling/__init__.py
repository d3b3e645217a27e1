"""Keras layers and models of ALBERT, written in `keras.ops` alone. Floor 2.

Letters of the shape comments: B batch, S sequence, E embedding, H hidden,
N heads, D head size (H = N x D), F feed-forward, V vocabulary, P masked
positions, Q queries (`output_positions`), C choices, K labels or beams.

Every layer and model takes the `config` of the whole model, unless it takes
sizes; the `seed` of its initial weights; `dtype`, a Keras dtype policy; and a
`name`. Checkpoints identify the variables of heads by their names.

A model is called on a dict of tensors. It ignores inputs that only other
models use; an unknown name is an error. It takes the call arguments of
`AlbertModel`, and its encoder starts with the weights of an `AlbertModel` of
the same seed.

The call argument `seed`, an int tensor `[2]`, is passed to all layers and
decides the dropout masks; without a seed, a layer drops nothing. A layer's
`dropout_index` numbers its first dropout among all dropouts of the model.
"""

from typing import Any, TypeAlias

# A tensor of the back end, eager, in a graph or symbolic; or anything that
# `keras.ops` converts to a tensor: an array, a variable, a number.
Tensor: TypeAlias = Any
