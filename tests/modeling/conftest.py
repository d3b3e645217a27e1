"""A tiny model in which every dimension differs, and a batch for it."""

import numpy as np
import pytest

from albert_tf.config import AlbertConfig


@pytest.fixture
def tiny_config():
    # Large first weights, so that outputs differ by more than rounding.
    return AlbertConfig(
        vocab_size=13,
        embedding_size=4,
        hidden_size=8,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=6,
        max_position_embeddings=7,
        initializer_range=0.5,
    )


@pytest.fixture
def tiny_batch():
    rng = np.random.default_rng(0)
    return {
        "input_ids": rng.integers(0, 13, (2, 5), dtype="int32"),
        "input_mask": np.array([[1] * 5, [1] * 3 + [0] * 2], "int32"),
        "segment_ids": np.array([[0, 0, 0, 1, 1], [0, 1, 1, 0, 0]], "int32"),
        "masked_lm_positions": np.array([[1, 2, 4], [2, 0, 0]], "int32"),
    }
