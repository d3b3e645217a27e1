"""What a checkpoint is in any format: arrays, config, vocabulary, metadata.

Each format has a module that reads a path into a `Checkpoint` and writes one.

Floor: checkpoints. NumPy: no TensorFlow.
"""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from albert_tf.checkpoints import variable_names
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig
from albert_tf.text import tokenizer as tokenizer_lib
from albert_tf.text.tokenizer import Tokenizer

_NAMES_SHOWN = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A model between two formats.

    Args:
        arrays: Arrays by TF1 name, without `module/`. All are float32 except
            the step counter. Optimizer slots and heads may be among them.
        config: Shape of the model; None if the source does not contain it.
        vocabulary: Path of a SentencePiece model, or of a WordPiece
            vocabulary, which ends in `.txt`; None if there is none.
        metadata: What else is known of the model.
    """

    arrays: Mapping[str, np.ndarray]
    config: AlbertConfig | None = None
    vocabulary: str | None = None
    metadata: Metadata = Metadata()

    @property
    def do_lower_case(self) -> bool:
        """Whether the vocabulary is for lower-cased text; true if unknown."""
        return self.metadata.do_lower_case is not False

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The arrays without optimizer slots and step counter."""
        return {
            name: array
            for name, array in self.arrays.items()
            if not variable_names.is_training_state(name)
        }

    @property
    def heads(self) -> set[str]:
        """Names of its heads, as given by `variable_names.head_of`."""
        return {*map(variable_names.head_of, self.weights)} - {""}

    @property
    def has_pooler(self) -> bool:
        """Whether a pooler is among the weights."""
        prefix = variable_names.POOLER_PREFIX
        return any(name.startswith(prefix) for name in self.weights)


def known_config(checkpoint: Checkpoint) -> AlbertConfig:
    """Returns the config of a checkpoint.

    Raises:
        ValueError: It has none.
    """
    if checkpoint.config is None:
        raise ValueError(
            "The shape of the model is unknown, because there is no "
            "albert_config.json beside the checkpoint. Pass "
            "--albert_config_file."
        )
    return checkpoint.config


def check(checkpoint: Checkpoint, where: str) -> None:
    """Checks that the weights match the config.

    Whole heads may be absent, and so may the pooler, which some models in
    other formats lack.

    Raises:
        ValueError: A variable is missing, unexpected or has the wrong shape;
            the message begins with `where`.
    """
    config = known_config(checkpoint)
    weights = checkpoint.weights
    encoder = {name for name in weights if not variable_names.head_of(name)}
    wanted = _encoder_names(config, has_pooler=checkpoint.has_pooler)
    wanted |= {
        row.tf1
        for row in variable_names.HEADS
        if variable_names.head_of(row.tf1) in checkpoint.heads
    }
    problems = [
        *(f"{name} is missing" for name in sorted(wanted - set(weights))),
        *(f"{name} is unexpected" for name in sorted(encoder - wanted)),
    ]
    for name, array in weights.items():
        shape = variable_names.shape_of(name, config)
        if shape is not None and not _fits(array.shape, shape):
            problems.append(
                f"{name} has shape {list(array.shape)}, but the config "
                f"implies {['any' if n is None else n for n in shape]}"
            )
    if problems:
        raise ValueError(
            f"{where!r}: the weights do not match the config: "
            f"{some(problems, '; ')}. Pass the config that the model was "
            "trained with."
        )


def _encoder_names(config: AlbertConfig, *, has_pooler: bool) -> set[str]:
    rows = [*variable_names.EMBEDDINGS]
    if has_pooler:
        rows += variable_names.POOLER
    if config.embedding_size != config.hidden_size:
        rows += variable_names.PROJECTION
    names = {row.tf1 for row in rows}
    for half, sublayer in (
        ("attention", variable_names.ATTENTION),
        ("ffn", variable_names.FEED_FORWARD),
    ):
        names |= {
            row.tf1.format(set=weight_set, inner=inner)
            for row in sublayer
            for weight_set in range(config.num_weight_sets(half))
            for inner in range(config.inner_group_num)
        }
    return names


def _fits(found: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    """Returns whether shapes are equal; None stands for any length."""
    return len(found) == len(wanted) and all(
        length in (number, None)
        for number, length in zip(found, wanted, strict=True)
    )


def as_groups(config: AlbertConfig, format_name: str) -> AlbertConfig:
    """Returns an equivalent config in which groups share whole layers.

    Raises:
        ValueError: Only one half of each layer is shared, which a format that
            has only groups cannot express.
    """
    if config.parameter_sharing == "all":
        return config
    if config.parameter_sharing == "none":
        return dataclasses.replace(
            config,
            parameter_sharing="all",
            num_hidden_groups=config.num_hidden_layers,
        )
    raise ValueError(
        f"{format_name} cannot express parameter_sharing="
        f"{config.parameter_sharing!r}: its layers share everything or "
        "nothing. Pass --parameter_sharing=none, which copies the shared "
        "weights, or --output_format=keras."
    )


def with_projection(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    """Returns the arrays, with an identity as the projection if E = H.

    Some formats always have a projection of the embeddings.
    """
    config = known_config(checkpoint)
    arrays = dict(checkpoint.arrays)
    if config.embedding_size == config.hidden_size:
        kernel, bias = (row.tf1 for row in variable_names.PROJECTION)
        arrays[kernel] = np.eye(config.hidden_size, dtype=np.float32)
        arrays[bias] = np.zeros(config.hidden_size, np.float32)
    return arrays


def without_projection(
    arrays: Mapping[str, np.ndarray], config: AlbertConfig, where: str
) -> dict[str, np.ndarray]:
    """Reverses `with_projection`.

    Raises:
        ValueError: E = H, but the projection is not the identity.
    """
    kernel, bias = (row.tf1 for row in variable_names.PROJECTION)
    if config.embedding_size != config.hidden_size or kernel not in arrays:
        return dict(arrays)
    is_identity = np.array_equal(arrays[kernel], np.eye(config.hidden_size))
    if not is_identity or np.any(arrays[bias]):
        raise ValueError(
            f"{where!r} has a trained projection of the embeddings although "
            "embedding_size and hidden_size are both "
            f"{config.hidden_size}. ALBERT has no projection then, so this "
            "model cannot be converted."
        )
    return {n: a for n, a in arrays.items() if n not in (kernel, bias)}


def load_tokenizer(source: Checkpoint) -> Tokenizer:
    """Loads the tokenizer of a checkpoint that has a vocabulary."""
    is_wordpiece = str(source.vocabulary).endswith(".txt")
    return tokenizer_lib.load_tokenizer(
        spm_model_file=None if is_wordpiece else source.vocabulary,
        vocab_file=source.vocabulary if is_wordpiece else None,
        do_lower_case=source.do_lower_case,
    )


def some(names: Iterable[str], separator: str = ", ") -> str:
    """Joins the first few names and says how many more there are."""
    names = list(names)
    shown = separator.join(names[:_NAMES_SHOWN])
    rest = len(names) - _NAMES_SHOWN
    return shown if rest <= 0 else f"{shown}{separator}and {rest} more"
