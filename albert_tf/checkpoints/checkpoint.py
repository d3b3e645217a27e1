"""What a checkpoint is in any format: arrays, config, vocabulary, metadata.

Each format has a module that reads a path into a `Checkpoint` and writes one.

NumPy: no TensorFlow.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from albert_tf import checks, files
from albert_tf.checkpoints import metadata, variable_names
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import EXTENSIONS, AlbertConfig
from albert_tf.text.base import Tokenizer

SPM_FILE = "spiece.model"
WORDPIECE_FILE = "vocab.txt"
Arrays = Mapping[str, np.ndarray]  # by TF1 name, without `module/`
# Into which float32 must divide the spread of numbers.
_LEAST_STEPS = 1000
_OUTPUT_WEIGHTS, _OUTPUT_BIAS = "output_weights", "output_bias"
_CONFIG_ADVICE = "Use the config that the checkpoint was made with."
_HEAD_ADVICE = (
    "Use a checkpoint that has this head, or a model without it. Only training "
    "may start with a random head: --allow_new_heads of run_pretraining.py, in "
    "Python allow_new_heads=True."
)


class Note(NamedTuple):
    """A line for the user: what became of a part of a checkpoint."""

    # `left out`, `unread` of what is kept for us alone, `assumed` of what the
    # source does not say, or `compared`
    kind: str
    text: str  # the part, and the reason in brackets

    def __str__(self) -> str:
        return f"{self.kind:10}{self.text}"


def notes_of_metadata(known: Metadata, reason: str) -> list[Note]:
    """Returns notes on metadata, kept in a file that others do not read."""
    facts = known.known()
    facts.pop("tokenizer_hash", None)
    if known.task not in metadata.MULTIPLE_CHOICE_TASKS:
        facts.pop("task", None)
    return [n._replace(kind="unread") for n in notes_of(facts, reason)]


def notes_of(facts: Mapping[str, Any], reason: str) -> list[Note]:
    """Returns a note for each fact, by name, that a format leaves out."""
    return [
        Note("left out", f"{name}={json.dumps(value)} ({reason})")
        for name, value in facts.items()
    ]


class WriteReport(NamedTuple):
    """What a format cannot store of a checkpoint written in it."""

    left_out: list[str]  # names of arrays
    notes: list[Note]  # what else its readers do not learn


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A model between two formats.

    Args:
        arrays: All are float32 except the step counter. Optimizer slots and
            heads may be among them. Empty if only described.
        config: Shape of the model; None if the source does not contain it.
        vocabulary: Path of a SentencePiece model (`.json` for a
            `tokenizer.json`), or of a WordPiece vocabulary, which ends in
            `.txt`; None if there is none.
        metadata: What else is known of the model.
        notes: What its files say that is not here.
    """

    arrays: Arrays = dataclasses.field(default_factory=dict)
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
        return any(name.startswith(prefix) for name in self.arrays)

    @property
    def tokenizer_settings(self) -> dict[str, Any]:
        """The arguments of `load_tokenizer`, by name."""
        is_wordpiece = (self.vocabulary or "").endswith(".txt")
        return {
            "spm_model_file": None if is_wordpiece else self.vocabulary,
            "vocab_file": self.vocabulary if is_wordpiece else None,
            "do_lower_case": self.do_lower_case,
        }

    def load_tokenizer(self) -> Tokenizer:
        """Loads the tokenizer of a checkpoint that has a vocabulary."""
        from albert_tf.text import tokenizer

        return tokenizer.load_tokenizer(**self.tokenizer_settings)


def known_config(checkpoint: Checkpoint) -> AlbertConfig:
    """Returns the config of a checkpoint that must have one."""
    if checkpoint.config is None:
        raise ValueError(
            "The shape of the model is unknown, because there is no "
            "albert_config.json beside the checkpoint. Pass "
            "--albert_config_file."
        )
    return checkpoint.config


def write_vocabulary(
    source: Checkpoint, folder: str, name: str | None = None
) -> None:
    """Writes the vocabulary of a checkpoint that has one into a folder.

    Its name is that of the file that it is copied from if none is given, and
    if `tf1` would find it.
    """
    from albert_tf.text import tokenizer_json

    path = str(source.vocabulary)
    file_name = os.path.basename(path)
    if path.endswith(".txt"):
        # Where a checkpoint is read, a vocabulary is found by its name.
        name = name or (file_name if "vocab" in file_name else WORDPIECE_FILE)
    name = name or (file_name if path.endswith(".model") else SPM_FILE)
    with files.atomic_write(os.path.join(folder, name)) as file:
        file.write(tokenizer_json.read_model(path))


# Whether arrays are those of a model.


def check(source: Checkpoint, where: str) -> None:
    """Checks that the weights match the config, and their values."""
    check_shapes(source, where)
    check_values(source.arrays, where)


def check_shapes(source: Checkpoint, where: str) -> None:
    """Checks that the weights match the config.

    Whole heads may be absent, and so may the pooler, which some models in
    other formats lack. Errors name `where`.
    """
    config = known_config(source)
    names = _encoder_names(config, has_pooler=source.has_pooler)
    names |= {
        row.tf1
        for row in variable_names.HEADS
        if variable_names.head_of(row.tf1) in source.heads
    }
    shapes = {name: variable_names.shape_of(name, config) for name in names}
    check_fit(source.weights, shapes, where)


def check_fit(
    weights: Mapping[str, np.ndarray],
    shapes: Mapping[str, tuple[int | None, ...]],
    where: str,
) -> None:
    """Checks that weights are all that a model needs, and nothing else.

    Heads that are not among the variables of the model, in `shapes`, may be
    there. A length of None stands for any. The message names `where`.
    """
    problems = {name: "missing" for name in shapes if name not in weights}
    for name, array in weights.items():
        if name not in shapes and not variable_names.head_of(name):
            problems[name] = "unexpected"
        elif name in shapes and not _fits(array.shape, shapes[name]):
            expected = ["any" if n is None else n for n in shapes[name]]
            problems[name] = (
                f"of shape {list(array.shape)}, but must be {expected}"
            )
    if problems:
        is_of_head = all(map(variable_names.head_of, problems))
        texts = (f"{name} is {problems[name]}" for name in sorted(problems))
        raise ValueError(
            f"Checkpoint {where!r} does not have the weights of the model "
            f"({len(problems)} variables): {checks.listed(texts)}. "
            f"{_HEAD_ADVICE if is_of_head else _CONFIG_ADVICE}"
        )


def check_values(arrays: Mapping[str, np.ndarray], where: str) -> None:
    """Checks that weights are floats, without NaN and infinity."""
    others = [
        name
        for name, array in arrays.items()
        # That of bfloat16 is V.
        if array.dtype.kind not in "fV" and name != variable_names.GLOBAL_STEP
    ]
    if others:
        raise ValueError(
            f"{where!r} has weights that are no floats: "
            f"{checks.listed(sorted(others))}. Pass another checkpoint."
        )
    wrong = [name for name, a in arrays.items() if not np.isfinite(a).all()]
    if wrong:
        raise ValueError(
            f"{where!r} has values that are not finite numbers (NaN or "
            f"infinity), in {checks.listed(sorted(wrong))}. The training may "
            "have diverged, or the file is damaged. Pass another checkpoint."
        )


def _encoder_names(config: AlbertConfig, *, has_pooler: bool) -> set[str]:
    rows = [*variable_names.EMBEDDINGS]
    if has_pooler:
        rows += variable_names.POOLER
    if config.embedding_size != config.hidden_size:
        rows += variable_names.PROJECTION
    names = {row.tf1 for row in rows}
    for half, sublayer, adapters in (
        (
            "attention",
            variable_names.ATTENTION,
            variable_names.ATTENTION_ADAPTERS,
        ),
        (
            "ffn",
            variable_names.FEED_FORWARD,
            variable_names.FEED_FORWARD_ADAPTERS,
        ),
    ):
        names |= {
            row.tf1.format(set=weight_set, inner=inner)
            for weight_set in range(config.num_weight_sets(half))
            for row in [
                *sublayer,
                *(adapters if config.has_adapters(half, weight_set) else ()),
            ]
            for inner in range(config.inner_group_num)
        }
    return names


def _fits(shape: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    return len(shape) == len(expected) and all(
        length in (number, None)
        for number, length in zip(shape, expected, strict=True)
    )


# What other formats express otherwise.


def as_groups(config: AlbertConfig, format_name: str) -> AlbertConfig:
    """Returns an equivalent config in which groups share whole layers.

    A format that has only groups cannot express that half a layer is shared,
    nor what the paper does not have.
    """
    if extensions := {*config.to_dict()} & {*EXTENSIONS}:
        raise ValueError(
            f"{format_name} cannot express {checks.listed(sorted(extensions))}."
            " Pass --output_format=keras."
        )
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


def in_units_of_labels(source: Checkpoint) -> Checkpoint:
    """Returns a regression whose outputs are numbers like the labels.

    Other formats do not know that ours may be scaled. It stays scaled if
    float32 is too coarse for the numbers, such as times in seconds since 1970.
    """
    known = source.metadata
    scale, mean = known.target_scale, known.target_mean
    if scale is None or mean is None:
        return source
    if np.spacing(np.float32(mean)) > scale / _LEAST_STEPS:
        return source
    arrays = dict(source.arrays)
    arrays[_OUTPUT_WEIGHTS] = arrays[_OUTPUT_WEIGHTS] * np.float32(scale)
    bias = arrays[_OUTPUT_BIAS] * scale + mean
    arrays[_OUTPUT_BIAS] = bias.astype(np.float32)
    return dataclasses.replace(
        source,
        arrays=arrays,
        metadata=dataclasses.replace(
            known, target_scale=None, target_mean=None
        ),
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
    """Reverses `with_projection`."""
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
