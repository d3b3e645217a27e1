"""What a checkpoint is in any format: arrays, config, vocabulary, metadata.

Each format has a module that reads a path into a `Checkpoint` and writes one.

NumPy: no TensorFlow.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from albert_tf.checkpoints import metadata, variable_names
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig

_NAMES_SHOWN = 5


class Note(NamedTuple):
    """A line for the user: what became of a part of a checkpoint.

    Args:
        kind: `left out`, or `assumed` of what the source does not say.
        text: The part, and the reason in brackets.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind:10}{self.text}"


def notes_of_metadata(known: Metadata, reason: str) -> list[Note]:
    """Returns notes on the metadata that change what a model answers."""
    facts = known.known()
    facts.pop("tokenizer_hash", None)
    if known.task not in metadata.MULTIPLE_CHOICE_TASKS:
        facts.pop("task", None)
    return notes_of(facts, reason)


def notes_of(facts: Mapping[str, Any], reason: str) -> list[Note]:
    """Returns a note for each fact, by name, that a format leaves out."""
    return [
        Note("left out", f"{name}={_shown(value)} ({reason})")
        for name, value in facts.items()
    ]


def _shown(value: Any) -> str:
    """Returns a value as one gives it to a flag."""
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else f"{value}"


class Written(NamedTuple):
    """What a format cannot store of a checkpoint written in it.

    Args:
        left_out: Names of arrays.
        notes: What else its readers do not learn.
    """

    left_out: list[str]
    notes: list[Note]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A model between two formats.

    Args:
        arrays: Arrays by TF1 name, without `module/`. All are float32 except
            the step counter. Optimizer slots and heads may be among them.
        config: Shape of the model; None if the source does not contain it.
        vocabulary: Path of a SentencePiece model (`.json` for a
            `tokenizer.json`), or of a WordPiece vocabulary, which ends in
            `.txt`; None if there is none.
        metadata: What else is known of the model.
        notes: What its files say that is not here.
    """

    arrays: Mapping[str, np.ndarray]
    config: AlbertConfig | None = None
    vocabulary: str | None = None
    metadata: Metadata = Metadata()
    notes: tuple[Note, ...] = ()

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
        ValueError: A variable is missing, unexpected, has the wrong shape or
            is not finite; the message begins with `where`.
    """
    config = known_config(checkpoint)
    weights = checkpoint.weights
    check_finite(checkpoint.arrays, where)
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


def check_finite(arrays: Mapping[str, np.ndarray], where: str) -> None:
    """Checks that arrays have no NaN and no infinity.

    Raises:
        ValueError: One has; the message begins with `where`.
    """
    wrong = [name for name, a in arrays.items() if not np.isfinite(a).all()]
    if wrong:
        raise ValueError(
            f"{where!r} has values that are not finite numbers (NaN or "
            f"infinity), in {some(sorted(wrong))}. The training may have "
            "diverged, or the file is damaged. Pass another checkpoint."
        )


def check_same_meaning(
    known: AlbertConfig,
    wanted: AlbertConfig,
    where: str,
    *,
    may_change_layers: bool = False,
) -> None:
    """Checks what configs say of the weights and their shapes do not show.

    Args:
        known: Config beside a checkpoint.
        wanted: Config of the model that is to have its weights.
        where: The checkpoint, for the message.
        may_change_layers: Whether the layers need not be the same.

    Raises:
        ValueError: The outputs would be others.
    """
    fields = ["hidden_act", "num_attention_heads"]
    layers = [
        "num_hidden_layers",
        "num_hidden_groups",
        "inner_group_num",
        "parameter_sharing",
    ]
    if not may_change_layers and _layers(known) != _layers(wanted):
        fields += layers
    for field in fields:
        theirs, ours = getattr(known, field), getattr(wanted, field)
        if theirs != ours:
            other = " convert_checkpoint.py changes the layers of a checkpoint."
            raise ValueError(
                f"Checkpoint {where!r} was made with {field}={theirs!r}, but "
                f"the model has {field}={ours!r}. Use the config that the "
                "checkpoint was made with, or correct the one beside it."
                f"{other if field in layers else ''}"
            )


def _layers(config: AlbertConfig) -> list[tuple[int, int, int]]:
    """Returns the sets of weights that each layer uses, and their blocks."""
    return [
        (
            config.weight_set("attention", layer),
            config.weight_set("ffn", layer),
            config.inner_group_num,
        )
        for layer in range(config.num_hidden_layers)
    ]


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


def some(names: Iterable[str], separator: str = ", ") -> str:
    """Joins the first few names and says how many more there are."""
    names = list(names)
    shown = separator.join(names[:_NAMES_SHOWN])
    rest = len(names) - _NAMES_SHOWN
    return shown if rest <= 0 else f"{shown}{separator}and {rest} more"
