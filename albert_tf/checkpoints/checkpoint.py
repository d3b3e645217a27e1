"""What a checkpoint is, whatever its format: arrays, config, vocabulary.

Every format is a module that reads a path into a `Checkpoint` and writes one.

Floor: checkpoints. NumPy: no TensorFlow.
"""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from albert_tf.checkpoints import variable_names, variable_table
from albert_tf.config import AlbertConfig
from albert_tf.modeling import sharing
from albert_tf.text import tokenizer as tokenizer_lib
from albert_tf.text.tokenizer import Tokenizer

_NAMES_SHOWN = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One model on its way from one format to another.

    Args:
        arrays: By TF1 name, without `module/`; float32, but for the step
            counter. Optimizer slots and heads may be among them.
        config: Shape of the model; None if the source does not tell.
        vocabulary: Path of a SentencePiece model, or of a WordPiece
            vocabulary, which ends in `.txt`; None without.
        do_lower_case: Whether the vocabulary is for lower-cased text.
    """

    arrays: Mapping[str, np.ndarray]
    config: AlbertConfig | None = None
    vocabulary: str | None = None
    do_lower_case: bool = True

    @property
    def heads(self) -> set[str]:
        """The heads that there are, as `variable_names.head_of` names them."""
        return {*map(variable_names.head_of, self.weights)} - {""}

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The arrays without optimizer slots and step counter."""
        return {
            name: array
            for name, array in self.arrays.items()
            if not variable_names.is_training_state(name)
        }


def known_config(checkpoint: Checkpoint) -> AlbertConfig:
    """Returns the config of a checkpoint.

    Raises:
        ValueError: It has none.
    """
    if checkpoint.config is None:
        raise ValueError(
            "The checkpoint says nothing of its config: there is no "
            "albert_config.json beside it. Pass --albert_config_file."
        )
    return checkpoint.config


def check(checkpoint: Checkpoint, where: str) -> None:
    """Checks that the weights are those of the config.

    Heads may be absent as a whole, and so may the pooler, which some of the
    others' models have not.

    Args:
        checkpoint: With a config.
        where: Path, for the message.

    Raises:
        ValueError: A variable is missing, left over or of another shape.
    """
    config = known_config(checkpoint)
    weights = checkpoint.weights
    encoder = {name for name in weights if not variable_names.is_head(name)}
    wanted = _encoder_names(config)
    if not any(n.startswith(variable_names.POOLER_PREFIX) for n in encoder):
        wanted -= {row.tf1 for row in variable_table.POOLER}
    wanted |= _names_of_begun_heads(weights)
    problems = [
        *(f"{name} is missing" for name in sorted(wanted - set(weights))),
        *(f"{name} is left over" for name in sorted(encoder - wanted)),
        *_misshapen(weights, config),
    ]
    if problems:
        raise ValueError(
            f"{where!r}: the weights are not those of the config: "
            f"{some(problems, '; ')}. Pass the config that they were made with."
        )


def _names_of_begun_heads(weights: Iterable[str]) -> set[str]:
    """Returns all names of every head of which there is at least one."""
    heads: dict[str, set[str]] = {}
    for row in variable_table.HEADS:
        head = variable_names.head_of(row.tf1)
        heads.setdefault(head, set()).add(row.tf1)
    begun = [names for names in heads.values() if names & set(weights)]
    return set().union(*begun)


def _encoder_names(config: AlbertConfig) -> set[str]:
    plan = sharing.sharing_plan(config)
    names = {row.tf1 for row in variable_table.EMBEDDINGS}
    names |= {row.tf1 for row in variable_table.POOLER}
    if config.embedding_size != config.hidden_size:
        names |= {row.tf1 for row in variable_table.PROJECTION}
    for rows, number in (
        (variable_table.ATTENTION, plan.num_attention),
        (variable_table.FEED_FORWARD, plan.num_feed_forward),
    ):
        for index in range(number):
            weight_set, inner = divmod(index, config.inner_group_num)
            names |= {r.tf1.format(set=weight_set, inner=inner) for r in rows}
    return names


def _misshapen(
    weights: Mapping[str, np.ndarray], config: AlbertConfig
) -> list[str]:
    found = []
    for name, array in weights.items():
        wanted = variable_names.shape_of(name, config)
        if wanted is not None and (
            len(wanted) != array.ndim
            or any(
                w not in (None, a)
                for w, a in zip(wanted, array.shape, strict=True)
            )
        ):
            found.append(
                f"{name} is {list(array.shape)}, the config wants "
                f"{['any' if w is None else w for w in wanted]}"
            )
    return found


def as_groups(config: AlbertConfig, format_name: str) -> AlbertConfig:
    """Returns the same model in a config that knows groups of layers only.

    Args:
        config: Any.
        format_name: Of the format that asks, for the message.

    Raises:
        ValueError: Half of each block is shared, which groups cannot say.
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
        f"{format_name} cannot express "
        f"parameter_sharing={config.parameter_sharing!r}: it shares whole "
        "blocks or nothing. Pass --parameter_sharing=none, which copies what "
        "is shared, or --output_format=keras."
    )


def with_projection(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    """Returns the arrays, with an identity as projection where E = H.

    For the formats that have a projection in any case.
    """
    config = known_config(checkpoint)
    arrays = dict(checkpoint.arrays)
    if config.embedding_size == config.hidden_size:
        kernel, bias = (row.tf1 for row in variable_table.PROJECTION)
        arrays[kernel] = np.eye(config.hidden_size, dtype=np.float32)
        arrays[bias] = np.zeros(config.hidden_size, np.float32)
    return arrays


def without_projection(
    arrays: Mapping[str, np.ndarray], config: AlbertConfig, where: str
) -> dict[str, np.ndarray]:
    """Undoes `with_projection`.

    Raises:
        ValueError: The projection of a model with E = H was trained.
    """
    kernel, bias = (row.tf1 for row in variable_table.PROJECTION)
    if config.embedding_size != config.hidden_size or kernel not in arrays:
        return dict(arrays)
    is_identity = np.array_equal(arrays[kernel], np.eye(config.hidden_size))
    if not is_identity or np.any(arrays[bias]):
        raise ValueError(
            f"{where!r} projects the embeddings though embedding_size and "
            f"hidden_size are both {config.hidden_size}. ALBERT has no "
            "projection then, so this model cannot be expressed."
        )
    return {n: a for n, a in arrays.items() if n not in (kernel, bias)}


def config_of(values: Mapping[str, object], where: str) -> AlbertConfig:
    """Returns a config of fields that another format's file names.

    Raises:
        ValueError: A value is impossible; the message names the file.
    """
    try:
        return AlbertConfig.from_dict(values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def load_tokenizer(source: Checkpoint) -> Tokenizer:
    """Loads the tokenizer of a checkpoint that has a vocabulary."""
    is_wordpiece = str(source.vocabulary).endswith(".txt")
    return tokenizer_lib.load_tokenizer(
        spm_model_file=None if is_wordpiece else source.vocabulary,
        vocab_file=source.vocabulary if is_wordpiece else None,
        do_lower_case=source.do_lower_case,
    )


def some(names: Iterable[str], separator: str = ", ") -> str:
    """Returns the first few names, and how many more there are."""
    names = list(names)
    shown = separator.join(names[:_NAMES_SHOWN])
    rest = len(names) - _NAMES_SHOWN
    return shown if rest <= 0 else f"{shown}{separator}and {rest} more"
