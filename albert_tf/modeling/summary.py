"""Counts the parameters and operations of a model from its config.

    python -m albert_tf.modeling.summary --config=base_v2 --length=512

Counts by formula, without building weights or importing TensorFlow.

Floor: modeling. Plain Python: no Keras.

Source: Lan et al. 2020, tables 1 and 4, for the numbers of parameters.
"""

import argparse
import dataclasses
import os
import sys
from collections.abc import Sequence

from albert_tf import checks
from albert_tf import config as config_lib
from albert_tf.modeling import sharing

# Paper: section 3.1 (as BERT): 15% of the tokens are predicted.
MASKED_SHARE = 0.15
NUM_ORDERS = 2
# A multiplication and an addition for each entry of a matrix product.
FLOPS_PER_ENTRY = 2
# Backward, a matrix product becomes two: one for its input, one for its
# weights.
TRAINING_FACTOR = 3
DEFAULT_LENGTH = 512

EMBEDDINGS = "embeddings"
PROJECTION = "embedding projection"
ATTENTION = "attention sublayers"
FEED_FORWARD = "feed-forward sublayers"
POOLER = "pooler"
MASKED_LM_HEAD = "masked-LM head"
SENTENCE_ORDER_HEAD = "sentence-order head"
ENCODER_PARTS = (EMBEDDINGS, PROJECTION, ATTENTION, FEED_FORWARD, POOLER)
HEAD_PARTS = (MASKED_LM_HEAD, SENTENCE_ORDER_HEAD)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """One part of a model.

    Args:
        name: One of the names above.
        parameters: Number of values in its variables.
        flops: Floating-point operations of its matrix products, forward, for
            one position of a sequence. What is computed once for each
            sequence, or only for masked positions, is averaged over all
            positions.
    """

    name: str
    parameters: int
    flops: float


def parts(
    config: config_lib.AlbertConfig, length: int = DEFAULT_LENGTH
) -> tuple[Part, ...]:
    """Returns the parts of a pretraining model, in the order of the data.

    Args:
        config: Shape of the model.
        length: S, for the operations.
    """
    parameters = _parameters(config)
    entries = _entries_per_position(config, length)
    return tuple(
        Part(
            name=name,
            parameters=parameters[name],
            flops=FLOPS_PER_ENTRY * entries[name],
        )
        for name in (*ENCODER_PARTS, *HEAD_PARTS)
    )


def encoder_parameters(config: config_lib.AlbertConfig) -> int:
    """Returns the number of parameters without the pretraining heads.

    >>> encoder_parameters(config_lib.published_config("base_v2"))
    11683584
    """
    counts = _parameters(config)
    return sum(counts[name] for name in ENCODER_PARTS)


def _parameters(config: config_lib.AlbertConfig) -> dict[str, int]:
    plan = sharing.sharing_plan(config)
    vocab, embedding = config.vocab_size, config.embedding_size
    hidden, inner = config.hidden_size, config.intermediate_size
    num_rows = vocab + config.type_vocab_size + config.max_position_embeddings
    feed_forward = (
        _linear(hidden, inner) + _linear(inner, hidden) + _layer_norm(hidden)
    )
    return {
        EMBEDDINGS: num_rows * embedding + _layer_norm(embedding),
        PROJECTION: (0 if embedding == hidden else _linear(embedding, hidden)),
        ATTENTION: plan.num_attention
        * (4 * _linear(hidden, hidden) + _layer_norm(hidden)),
        FEED_FORWARD: plan.num_feed_forward * feed_forward,
        POOLER: _linear(hidden, hidden),
        MASKED_LM_HEAD: (
            _linear(hidden, embedding) + _layer_norm(embedding) + vocab
        ),
        SENTENCE_ORDER_HEAD: _linear(hidden, NUM_ORDERS),
    }


def _linear(num_inputs: int, num_outputs: int) -> int:
    return num_inputs * num_outputs + num_outputs


def _layer_norm(size: int) -> int:
    return 2 * size


def _entries_per_position(
    config: config_lib.AlbertConfig, length: int
) -> dict[str, float]:
    embedding, hidden = config.embedding_size, config.hidden_size
    num_blocks = config.num_hidden_layers * config.inner_group_num
    # Query, key, value, output; then scores and averages over S positions.
    attention = 4 * hidden * hidden + 2 * length * hidden
    decoder = embedding * (hidden + config.vocab_size)
    return {
        EMBEDDINGS: 0,
        PROJECTION: 0 if embedding == hidden else embedding * hidden,
        ATTENTION: num_blocks * attention,
        FEED_FORWARD: num_blocks * 2 * hidden * config.intermediate_size,
        POOLER: hidden * hidden / length,
        MASKED_LM_HEAD: MASKED_SHARE * decoder,
        SENTENCE_ORDER_HEAD: NUM_ORDERS * hidden / length,
    }


def format_table(config: config_lib.AlbertConfig, length: int) -> str:
    """Returns the table that the command prints.

    Args:
        config: Shape of the model.
        length: S, for the operations.
    """
    all_parts = parts(config, length)
    encoder = all_parts[: len(ENCODER_PARTS)]
    rows = [
        _row("part", "parameters", "MFLOPs forward", "MFLOPs training"),
        *map(_part_row, encoder),
        _part_row(_total("encoder with pooler", encoder)),
        *map(_part_row, all_parts[len(ENCODER_PARTS) :]),
        _part_row(_total("total", all_parts)),
    ]
    note = (
        f"MFLOPs: millions of operations a position, at {length} positions a "
        f"sequence,\n{MASKED_SHARE:.0%} of them masked; training is forward "
        "and backward."
    )
    return "\n".join([*rows, "", note])


def _total(name: str, summands: Sequence[Part]) -> Part:
    return Part(
        name=name,
        parameters=sum(part.parameters for part in summands),
        flops=sum(part.flops for part in summands),
    )


def _part_row(part: Part) -> str:
    millions = part.flops / 1e6
    return _row(
        part.name,
        f"{part.parameters:,}",
        f"{millions:,.2f}",
        f"{millions * TRAINING_FACTOR:,.2f}",
    )


def _row(name: str, *cells: str) -> str:
    return f"{name:<23}" + "".join(f"{cell:>17}" for cell in cells)


def _read_config(name_or_path: str) -> config_lib.AlbertConfig:
    if name_or_path in config_lib.PUBLISHED_SIZES:
        return config_lib.published_config(name_or_path)
    if not os.path.exists(name_or_path):
        raise ValueError(
            f"{name_or_path!r} is neither a file nor a published model. Pass "
            "the path of an albert_config.json, or one of "
            f"{', '.join(config_lib.PUBLISHED_SIZES)}."
        )
    return config_lib.AlbertConfig.from_json_file(name_or_path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table of a model.

    Args:
        arguments: The words of the command line; None for the process's own.
    """
    parser = argparse.ArgumentParser(
        prog="python -m albert_tf.modeling.summary",
        description="Counts a model's parameters and operations.",
    )
    parser.add_argument(
        "--config", required=True, help="base_v2, ..., or a JSON file"
    )
    parser.add_argument(
        "--length",
        type=int,
        default=DEFAULT_LENGTH,
        help="positions a sequence (default: %(default)s)",
    )
    values = parser.parse_args(arguments)
    try:
        checks.check_integer("--length", values.length, at_least=1)
        config = _read_config(values.config)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    print(format_table(config, values.length))  # noqa: T201


if __name__ == "__main__":
    main()
