"""A checkpoint of any format: arrays, config, vocabulary, metadata.

`discovery.open` returns the checkpoint at a path. Each format has a module that
reads it. Without TensorFlow.
"""

import contextlib
import dataclasses
import errno
import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from albert_tf import checks
from albert_tf.checkpoints import heads, variable_names
from albert_tf.checkpoints.heads import Head
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig
from albert_tf.text import tokenizer, vocabulary_file

if TYPE_CHECKING:
    from albert_tf.text.base import Tokenizer

_LOGGER = logging.getLogger(__name__)
# Begins a note on several vocabularies, or on an unsupported vocabulary.
VOCABULARY = "vocabulary"
# Kinds of notes on a tokenizer: unsupported, or known to give other ids.
REFUSED, DIFFERS = "refused", "differs"
# Arrays by TF1 name, without `module/`.
Arrays = Mapping[str, np.ndarray]
_NO_FILE_ERRORS = (None, errno.ENOENT, errno.EISDIR, errno.ENOTDIR)
OUTPUT_WEIGHTS, OUTPUT_BIAS = "output_weights", "output_bias"


class Note(NamedTuple):
    """A line for the user: what became of a part of a checkpoint."""

    # `left out`; `unread`, if only albert_tf reads it; `assumed`, if the files
    # do not say it; or `compared`.
    kind: str
    text: str  # the part, and the reason in brackets

    def __str__(self) -> str:
        return f"{self.kind:10}{self.text}"


# Names of the arrays that a format cannot store, and notes on metadata that
# readers of the format do not learn.
WriteReport = tuple[list[str], list[Note]]


def _weights(names: Iterable[str]) -> list[str]:
    """Returns names without optimizer slots and step counter."""
    state, counter = variable_names.SLOT_SUFFIXES, variable_names.GLOBAL_STEP
    return [n for n in names if n != counter and not n.endswith(state)]


def head_groups(names: Iterable[str]) -> set[str]:
    """Returns the groups, by `variable_names.head_of`, of arrays of heads."""
    return {*map(variable_names.head_of, _weights(names))} - {""}


@dataclasses.dataclass(frozen=True, eq=False)
class LazyArrays(Mapping[str, np.ndarray]):
    """Arrays that are read when they are first asked for; errors name `path`.

    `read` takes the path, and returns the arrays, or functions that read each.
    """

    path: str
    read: Callable[[str], Mapping[str, Any]]

    @functools.cached_property
    def _arrays(self) -> dict[str, Any]:
        with naming(self.path):
            return {**self.read(self.path)}

    def __getitem__(self, name: str) -> np.ndarray:
        array: np.ndarray = self._arrays[name]
        if callable(array):
            with naming(self.path):
                array = self._arrays[name] = array()
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Names the checkpoint in errors about files of other programs."""
    try:
        yield
    except (ImportError, MemoryError, AssertionError):
        raise
    except Exception as error:  # Of any package that reads files.
        if isinstance(error, ValueError) and path in str(error):
            raise
        # Others with a number are faults of the machine.
        if isinstance(error, OSError) and error.errno not in _NO_FILE_ERRORS:
            raise
        reason = " ".join(str(error).split())
        raise ValueError(
            f"Checkpoint {path!r} is damaged or incomplete, or another model's "
            f"({reason}). Copy its files again, or pass an ALBERT."
        ) from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A checkpoint of any format, or a model between two formats.

    Args:
        path: Path that was opened, which errors name; "" if there is none.
        format: `tf1`, which includes our own runs, `huggingface`,
            `keras_hub`, `keras_file`, `litert` or `onnx`.
        arrays: Arrays by TF1 name, with slots and heads; float32 except the
            step.
        config: Shape of the model; None if the files do not contain it.
        vocabulary: Path of a SentencePiece model, of a `tokenizer.json`, of a
            WordPiece vocabulary, which ends in `.txt`, or of symbols, which
            ends in `symbols.json`; None if there is none.
        content: Content of the vocabulary, if it differs from the file's.
        metadata: Head, labels and other facts about the model.
        notes: Lines about facts in the files that the other fields lack.
    """

    path: str = ""
    format: str = ""
    arrays: Arrays = dataclasses.field(default_factory=dict)
    config: AlbertConfig | None = None
    vocabulary: str | None = None
    content: bytes | None = None
    metadata: Metadata = Metadata()
    notes: tuple[Note, ...] = ()

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the fine-tuning that made it; empty if unknown."""
        return self.metadata.settings or {}

    @property
    def max_seq_length(self) -> int:
        """Longest text in tokens: of the fine-tuning, or of the model."""
        longest = self.known_config.max_position_embeddings
        return min(int(self.settings.get("max_seq_length", longest)), longest)

    @property
    def known_config(self) -> AlbertConfig:
        """The config of a checkpoint that must have one."""
        if self.config is None:
            raise ValueError(
                "There is no albert_config.json beside the checkpoint. Put it "
                "there, or pass --albert_config_file."
            )
        return self.config

    @property
    def vocabulary_kind(self) -> str:
        """The kind of its vocabulary, see `kind_of`; "" if there is none."""
        path = self.vocabulary
        return vocabulary_file.kind_of(path) if path else ""

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The arrays without optimizer slots and step counter."""
        return {name: self.arrays[name] for name in _weights(self.arrays)}

    @property
    def step(self) -> int:
        """The step of the training at which it was saved; 0 if unknown."""
        return int(self.arrays.get(variable_names.GLOBAL_STEP, 0))

    @property
    def heads(self) -> set[str]:
        """Groups, by `variable_names.head_of`, of the variables of heads."""
        return head_groups(self.arrays)

    def head(self, wanted: str | Head | None = None) -> Head:
        """Returns the wanted head, which must be there, or the checkpoint's.

        The metadata name the checkpoint's head; otherwise, it is the only one
        of the `heads.candidates`.
        """
        named = self.metadata.head
        if wanted is None:
            names = heads.candidates(self.heads, self.metadata)
            [name, *others] = [named] if named else names
            if others:
                raise ValueError(
                    f"Checkpoint {self.path!r} has the heads of several tasks: "
                    f"{', '.join(names)}. Name the head to use, such as "
                    f"head={name!r}, or by --head."
                )
            if name not in heads.HEADS and not heads.in_package(name):
                raise ValueError(
                    f"Checkpoint {self.path!r} has the head {name}, which is "
                    f"none of {', '.join(heads.HEADS)}. Pass its `HeadSpec` as "
                    "`head`, or --head=package.module:SPEC; or "
                    "head='encoder', for its encoder."
                )
            return heads.named(name)
        head = heads.named(wanted)
        trained = heads.HEADS.get(named or "")
        if (
            trained
            and trained.groups == head.groups
            and trained.name != head.name
        ):
            raise ValueError(
                f"{self.path!r} has a {trained.name} head, whose variables "
                f"look like variables of {head.name}. Pass another checkpoint."
            )
        is_there = head.name == named or head.groups & self.heads
        if head.groups and not is_there:
            raise ValueError(
                f"{self.path!r} has no {head.name} head. It has: "
                f"{', '.join(sorted(self.heads)) or 'none'}. Fine-tune it for "
                "the task first, or pass another head."
            )
        return head

    @property
    def may_be_choices(self) -> bool:
        """Whether its output may be a number or the score of a choice."""
        metadata = self.metadata
        is_certain = metadata.head or metadata.multi_label
        is_certain = is_certain or metadata.labels == ()
        return not is_certain and len(self.arrays.get(OUTPUT_BIAS, ())) == 1

    @property
    def has_pooler(self) -> bool:
        """Whether a pooler is among the weights."""
        prefix = variable_names.POOLER_PREFIX
        return any(name.startswith(prefix) for name in self.arrays)

    @functools.cached_property
    def tokenizer(self) -> "Tokenizer":
        """The tokenizer of a checkpoint that must have one vocabulary."""
        if self.vocabulary is None:
            texts = [note.text for note in self.notes]
            reasons = [text for text in texts if text.startswith(VOCABULARY)]
            raise ValueError(
                f"There is no one vocabulary beside {self.path!r}"
                f"{''.join(f': {reason}' for reason in reasons)}. Name the "
                "vocabulary of the training: --spm_model_file or --vocab_file, "
                "in Python vocabulary. Or put it there, alone (beside a .keras "
                "file, only the vocabulary of a run is used)."
            )
        for note in self.notes:
            if note.kind == DIFFERS:
                _LOGGER.warning("%s: %s", self.path, note.text)
        return tokenizer.make(
            self.vocabulary,
            content=self.content,
            **self.metadata.tokenizer_settings,
        )

    def with_depth(self, depth: int | None) -> "Checkpoint":
        """Returns the checkpoint with its first `depth` layers; None for all.

        Thresholds and scores of the whole model are left out.
        """
        config = self.known_config
        if depth in (None, config.num_hidden_layers):
            return self
        checks.check_integer(
            "depth", depth, at_least=1, at_most=config.num_hidden_layers
        )
        config.check_shared("depth")
        return dataclasses.replace(
            self,
            config=dataclasses.replace(config, num_hidden_layers=depth),
            metadata=self.metadata.measured({}),
        )

    def check_task(self, wanted: Metadata) -> None:
        """Checks that the weights were trained with a task's labels and text.

        Unknown fields of either side are not compared.
        """
        trained, different = self.metadata, []
        if None not in (trained.labels, wanted.labels):
            both = [{"labels": side.labels} for side in (trained, wanted)]
            labels = checks.differences(*both)
            # Who trained weights elsewhere may have named the labels otherwise.
            fold = str if trained.task else str.casefold
            old = [*map(fold, trained.labels or ())]
            new = [*map(fold, wanted.labels or ())]
            if old != new and (trained.task or {*old} & {*new}):
                different += labels
            elif old != new:
                text = "The weights of %s were trained with %s."
                _LOGGER.warning(text, self.path, labels[0])
        for name in ("do_lower_case", "tokenizer_hash"):
            both = [{name: getattr(side, name)} for side in (trained, wanted)]
            if None not in (both[0][name], both[1][name]):
                different += checks.differences(*both)
        if different:
            raise ValueError(
                f"The weights of {self.path!r} were trained with another "
                "vocabulary, lower-casing or labels: "
                f"{checks.listed(different)}. Pass what they were trained with."
            )
