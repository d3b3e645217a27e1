"""Keras layers and models of ALBERT, written in `keras.ops` alone. Floor 2.

Letters of the shape comments: B batch, S sequence, E embedding, H hidden,
N heads, D head size (H = N x D), F feed-forward, V vocabulary, P masked
positions, C choices, K labels or beams.
"""
