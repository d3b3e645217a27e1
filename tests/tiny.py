"""Tiny models and batches in which every dimension differs.

A swapped axis then fails. B = 2 sequences of S = 5 tokens, P = 3 masked
positions, C = 3 choices.
"""

import numpy as np

from albert_tf.config import AlbertConfig

VOCAB_SIZE = 13
MAX_LENGTH = 7
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def write_vocabulary(path, tokens) -> str:
    """Writes a WordPiece vocabulary: special tokens, then these."""
    path.write_text("\n".join([*SPECIAL_TOKENS, *tokens]), encoding="utf-8")
    return str(path)


def config(**changes) -> AlbertConfig:
    """Returns a config with V = 13, E = 4, H = 8, N = 2, F = 6, 3 layers.

    The initial weights are large, so that outputs of different models differ
    by more than rounding.
    """
    fields = {
        "vocab_size": VOCAB_SIZE,
        "embedding_size": 4,
        "hidden_size": 8,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 6,
        "max_position_embeddings": MAX_LENGTH,
        "initializer_range": 0.5,
    }
    return AlbertConfig(**fields | changes)


def batch() -> dict[str, np.ndarray]:
    """Returns the inputs of every model but multiple choice; padding too."""
    rng = np.random.default_rng(0)
    return {
        "input_ids": rng.integers(0, VOCAB_SIZE, (2, 5), dtype="int32"),
        "input_mask": np.array([[1] * 5, [1] * 3 + [0] * 2], "int32"),
        "segment_ids": np.array([[0, 0, 0, 1, 1], [0, 1, 1, 0, 0]], "int32"),
        "masked_lm_positions": np.array([[1, 2, 4], [2, 0, 0]], "int32"),
        "p_mask": np.array([[0, 1, 0, 0, 0], [0, 1, 0, 1, 1]], "float32"),
        "start_positions": np.array([2, 0], "int32"),
    }


def choices() -> dict[str, np.ndarray]:
    """Returns the inputs of a multiple-choice model, `[B, C, S]`."""
    rng = np.random.default_rng(1)
    rows = batch()
    repeated = {
        name: np.stack([rows[name]] * 3, axis=1)
        for name in ("input_mask", "segment_ids")
    }
    ids = rng.integers(0, VOCAB_SIZE, (2, 3, 5), dtype="int32")
    return {"input_ids": ids} | repeated


def floats(*shape: int) -> np.ndarray:
    """Returns float32 numbers of a standard normal distribution."""
    return np.random.default_rng(1).standard_normal(shape).astype("float32")
