"""Counts the parameters and operations of a model from its config.

Counts by formula, without building weights or importing TensorFlow.

Source: Lan et al. 2020, tables 1 and 4, for the numbers of parameters.
"""

import dataclasses

from albert_tf.config import AlbertConfig

# Paper: section 3.1 (as BERT): 15% of the tokens are predicted.
MASKED_SHARE = 0.15
NUM_ORDERS = 2
# Backward, a matrix product becomes two: one for its input, one for its
# weights.
TRAINING_FACTOR = 3
DEFAULT_LENGTH = 512


@dataclasses.dataclass(frozen=True)
class Part:
    """One part of a model.

    `entries` are multiplications in its matrix products, forward, for one
    position of a sequence. What is computed once for each sequence, or only
    for masked positions, is averaged over all positions.
    """

    name: str
    parameters: int
    entries: float

    @property
    def flops(self) -> float:
        """Multiplications and additions, forward, for one position."""
        return 2 * self.entries


def encoder_parts(
    config: AlbertConfig, length: int = DEFAULT_LENGTH
) -> list[Part]:
    """Returns the parts of an encoder with its pooler, from input to output.

    The operations depend on `length`, S.
    """
    embedding, hidden = config.embedding_size, config.hidden_size
    inner = config.intermediate_size
    num_rows = (
        config.vocab_size
        + config.type_vocab_size
        + config.max_position_embeddings
    )
    has_projection = embedding != hidden
    # Within a window, a block of tokens meets three blocks.
    attended = min(length, 3 * config.attention_window or length)
    num_blocks = config.num_hidden_layers * config.inner_group_num
    num_attention, num_feed_forward = (
        config.num_weight_sets(half) * config.inner_group_num
        for half in ("attention", "ffn")
    )
    return [
        Part("embeddings", num_rows * embedding + _layer_norm(embedding), 0),
        Part(
            "embedding projection",
            _linear(embedding, hidden) if has_projection else 0,
            embedding * hidden if has_projection else 0,
        ),
        Part(
            "attention sublayers",
            num_attention * (4 * _linear(hidden, hidden) + _layer_norm(hidden)),
            # Query, key, value, output; then scores and averages.
            num_blocks * (4 * hidden * hidden + 2 * attended * hidden),
        ),
        Part(
            "feed-forward sublayers",
            num_feed_forward
            * (
                _linear(hidden, inner)
                + _linear(inner, hidden)
                + _layer_norm(hidden)
            ),
            num_blocks * 2 * hidden * inner,
        ),
        Part("pooler", _linear(hidden, hidden), hidden * hidden / length),
    ]


def head_parts(
    config: AlbertConfig, length: int = DEFAULT_LENGTH
) -> list[Part]:
    """Returns the heads of pretraining."""
    vocab, embedding = config.vocab_size, config.embedding_size
    hidden = config.hidden_size
    return [
        Part(
            "masked-LM head",
            _linear(hidden, embedding) + _layer_norm(embedding) + vocab,
            MASKED_SHARE * embedding * (hidden + vocab),
        ),
        Part(
            "sentence-order head",
            _linear(hidden, NUM_ORDERS),
            NUM_ORDERS * hidden / length,
        ),
    ]


def flops(config: AlbertConfig, length: int) -> float:
    """Returns the operations of a pretraining, forward, for one position."""
    parts = [*encoder_parts(config, length), *head_parts(config, length)]
    return sum(part.flops for part in parts)


def encoder_parameters(config: AlbertConfig) -> int:
    """Returns the number of parameters without the pretraining heads."""
    return sum(part.parameters for part in encoder_parts(config))


def _linear(num_inputs: int, num_outputs: int) -> int:
    return num_inputs * num_outputs + num_outputs


def _layer_norm(size: int) -> int:
    return 2 * size
