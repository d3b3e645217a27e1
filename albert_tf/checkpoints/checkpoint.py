"""What a checkpoint is in any format: arrays, config, vocabulary, metadata.

`discovery.open` makes one of a path. Each format has a module that reads it,
and writes it where others read it. Without TensorFlow.
"""

import contextlib
import dataclasses
import errno
import fnmatch
import functools
import glob
import itertools
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from albert_tf import checks, files
from albert_tf.checkpoints import heads, variable_names
from albert_tf.checkpoints.heads import Head
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import EXTENSIONS, AlbertConfig
from albert_tf.text import tokenizer, tokenizer_json
from albert_tf.text.base import SYMBOLS_FILE, Tokenizer

_LOGGER = logging.getLogger(__name__)
SPM_FILE = "spiece.model"
WORDPIECE_FILE = "vocab.txt"
_VOCABULARIES = ("*.model", "*vocab*.txt", f"*{SYMBOLS_FILE}")
# Begins a note on several vocabularies, or on one that is not supported.
VOCABULARY = "vocabulary"
# Kinds of notes: a tokenizer that is not supported, and one of other ids.
REFUSED, DIFFERS = "refused", "differs"
Arrays = Mapping[str, np.ndarray]  # by TF1 name, without `module/`
_NOT_THERE = (None, errno.ENOENT, errno.EISDIR, errno.ENOTDIR)
_OUTPUT_WEIGHTS, _OUTPUT_BIAS = "output_weights", "output_bias"


class Note(NamedTuple):
    """A line for the user: what became of a part of a checkpoint."""

    # `left out`, `unread` of what is kept for us alone, `assumed` of what the
    # source does not say, or `compared`
    kind: str
    text: str  # the part, and the reason in brackets

    def __str__(self) -> str:
        return f"{self.kind:10}{self.text}"


# Arrays that a format cannot store, and what else its readers do not learn.
WriteReport = tuple[list[str], list[Note]]


def notes_of_metadata(known: Metadata, reason: str) -> list[Note]:
    """Returns notes on metadata, kept in a file that others do not read."""
    facts = known.known()
    silent = {"tokenizer_hash", "task", "head", "settings", "evaluation"}
    if "pooling" in (known.settings or {}):
        silent.remove("settings")
    return [
        Note("unread", f"{name}={json.dumps(facts[name])} ({reason})")
        for name in facts
        if name not in silent
    ]


def _weights(names: Iterable[str]) -> list[str]:
    """Returns names without optimizer slots and step counter."""
    state, counter = variable_names.SLOT_SUFFIXES, variable_names.GLOBAL_STEP
    return [n for n in names if n != counter and not n.endswith(state)]


def _head_groups(names: Iterable[str]) -> set[str]:
    return {*map(variable_names.head_of, _weights(names))} - {""}


def stored_head(known: Metadata, left_out: Iterable[str]) -> Metadata:
    """Returns metadata that name no head whose arrays are left out."""
    head = heads.HEADS.get(known.head or "")
    if head and head.groups.isdisjoint(_head_groups(left_out)):
        return known
    return dataclasses.replace(known, head=None)


@dataclasses.dataclass(frozen=True, eq=False)
class LazyArrays(Mapping[str, np.ndarray]):
    """Arrays that are read when they are first asked for; errors name `path`.

    `read` takes it, and returns the arrays, or functions that read each.
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
    """Names what another program wrote in errors that do not."""
    try:
        yield
    except (ImportError, MemoryError, AssertionError):
        raise
    except Exception as error:  # Of any package that reads files.
        if isinstance(error, ValueError) and path in str(error):
            raise
        # Others with a number are faults of the machine.
        if isinstance(error, OSError) and error.errno not in _NOT_THERE:
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
        path: Where it was opened, which errors name; "" if it is on no disk.
        format: As `discovery.recognise` calls it.
        arrays: By TF1 name, with slots and heads; float32 except the step.
        config: Shape of the model; None if the source does not contain it.
        vocabulary: Path of a SentencePiece model, of a `tokenizer.json`, of a
            WordPiece vocabulary, which ends in `.txt`, or of symbols, which
            ends in `symbols.json`; None for none.
        content: That of the vocabulary, if it is not the file's.
        metadata: What else is known of the model.
        notes: What its files say that is not here.
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
        """Tokens of a text, at most: of the fine-tuning, or of the model."""
        longest = self.known_config.max_position_embeddings
        return int(self.settings.get("max_seq_length", longest))

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
    def is_wordpiece(self) -> bool:
        """Whether its vocabulary, if it has one, is for WordPiece."""
        return (self.vocabulary or "").endswith(".txt")

    @property
    def has_symbols(self) -> bool:
        """Whether its vocabulary, if it has one, is a list of symbols."""
        return (self.vocabulary or "").endswith(SYMBOLS_FILE)

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
        """Groups of its heads' variables, of `variable_names.head_of`."""
        return _head_groups(self.arrays)

    def head(self, wanted: str | Head | None = None) -> Head:
        """Returns the head that it has, or the wanted one, which it must have.

        Its own is the one that its metadata name, or the only one of the
        `heads.candidates`.
        """
        named = self.metadata.head
        if wanted is None:
            names = heads.candidates(self.heads, self.metadata)
            [name, *others] = [named] if named else names
            if others:
                raise ValueError(
                    f"Checkpoint {self.path!r} has the heads of several tasks: "
                    f"{', '.join(names)}. Name the one to use, such as "
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
        known = heads.HEADS.get(named or "")
        if known and known.groups == head.groups and known.name != head.name:
            raise ValueError(
                f"{self.path!r} has a {known.name} head, whose variables only "
                f"look like those of {head.name}. Pass another checkpoint."
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
        known = self.metadata
        is_known = known.head or known.multi_label or known.labels == ()
        return not is_known and len(self.arrays.get(_OUTPUT_BIAS, ())) == 1

    @property
    def has_pooler(self) -> bool:
        """Whether a pooler is among the weights."""
        prefix = variable_names.POOLER_PREFIX
        return any(name.startswith(prefix) for name in self.arrays)

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of a checkpoint that must have one vocabulary."""
        if self.vocabulary is None:
            texts = [note.text for note in self.notes]
            reasons = [text for text in texts if text.startswith(VOCABULARY)]
            raise ValueError(
                f"There is no one vocabulary beside {self.path!r}"
                f"{''.join(f': {reason}' for reason in reasons)}. Name that of "
                "the training: --spm_model_file or --vocab_file, in Python "
                "vocabulary. Or put it there, alone (beside a .keras file, "
                "only that of a run)."
            )
        for note in self.notes:
            if note.kind == DIFFERS:
                _LOGGER.warning("%s: %s", self.path, note.text)
        kind = "vocab_file" if self.is_wordpiece else "spm_model_file"
        path: dict[str, Any] = {kind: self.vocabulary}
        return tokenizer.load_tokenizer(
            **path, content=self.content, **self.metadata.tokenizer_settings
        )


def vocabularies_in(folder: files.Path) -> list[str]:
    """Returns the paths of the vocabularies in a folder."""
    root = os.path.join(glob.escape(os.fspath(folder)), "")
    found = (glob.glob(f"{root}{name}") for name in _VOCABULARIES)
    return sorted(itertools.chain(*found))


def write_vocabulary(
    source: Checkpoint, folder: str, name: str | None = None
) -> None:
    """Writes the vocabulary of a checkpoint that has one into a folder.

    Without `name`, its own is kept if `tf1` would find it.
    """
    path = str(source.vocabulary)
    own = os.path.basename(path)
    if not any(fnmatch.fnmatch(own, one) for one in _VOCABULARIES):
        own = WORDPIECE_FILE if source.is_wordpiece else SPM_FILE
    if source.has_symbols:
        own = SYMBOLS_FILE
    with files.atomic_write(os.path.join(folder, name or own)) as file:
        file.write(source.content or tokenizer_json.read_model(path))


def as_groups(config: AlbertConfig, format_name: str) -> AlbertConfig:
    """Returns an equivalent config in which groups share whole layers."""
    inexpressible = sorted({*config.to_dict()} & {*EXTENSIONS})
    if config.parameter_sharing not in ("all", "none"):
        inexpressible.append(f"parameter_sharing={config.parameter_sharing!r}")
    if inexpressible:
        raise ValueError(
            f"{format_name} cannot express {checks.listed(inexpressible)}. "
            "Pass --output_format=keras; or, of layers that share a half, "
            "--parameter_sharing=none, which copies the shared weights."
        )
    if config.parameter_sharing == "all":
        return config
    return dataclasses.replace(
        config,
        parameter_sharing="all",
        num_hidden_groups=config.num_hidden_layers,
    )


def in_units_of_labels(source: Checkpoint) -> Checkpoint:
    """Returns a regression whose outputs are numbers like the labels.

    Or a classifier whose temperature is 1. Other formats do not know that ours
    may be scaled. A regression stays scaled if float32 is too coarse for the
    numbers, such as times in seconds since 1970.
    """
    known = source.metadata
    scale, mean = known.target_scale, known.target_mean
    if known.temperature is not None:
        scale, mean = 1 / known.temperature, 0.0
    if scale is None or mean is None:
        return source
    if np.spacing(np.float32(mean)) > scale / 1000:
        return source
    known = dataclasses.replace(
        known,
        target_scale=None,
        target_mean=None,
        # It is known, and not chosen again on other rows.
        temperature=known.temperature and 1.0,
    )
    arrays = dict(source.arrays)
    arrays[_OUTPUT_WEIGHTS] = arrays[_OUTPUT_WEIGHTS] * np.float32(scale)
    bias = arrays[_OUTPUT_BIAS] * scale + mean
    arrays[_OUTPUT_BIAS] = bias.astype(np.float32)
    return dataclasses.replace(source, arrays=arrays, metadata=known)


def translated(
    arrays: Mapping[str, np.ndarray], *, source: str, target: str
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Returns arrays by another format's names, and the names it lacks."""
    found, unknown = {}, []
    for name, array in arrays.items():
        match = variable_names.translate(name, source=source, target=target)
        if match is None:
            unknown.append(name)
        else:
            new_name, is_transposed = match
            found[new_name] = array.T if is_transposed else array
    return found, sorted(unknown)


def from_tf1(
    source: Checkpoint, target: str
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Returns what `translated` does; without a projection, it is identity."""
    arrays, size = dict(source.arrays), source.known_config.hidden_size
    if not source.known_config.has_projection:
        kernel, bias = (row.tf1 for row in variable_names.PROJECTION)
        arrays[kernel] = np.eye(size, dtype=np.float32)
        arrays[bias] = np.zeros(size, np.float32)
    return translated(arrays, source="tf1", target=target)


def to_tf1(arrays: Arrays, source: str) -> dict[str, np.ndarray]:
    """Returns all arrays of another format."""
    found, unknown = translated(arrays, source=source, target="tf1")
    if unknown:
        raise ValueError(f"arrays that no ALBERT has: {checks.listed(unknown)}")
    return found


def with_projection(source: Checkpoint) -> Checkpoint:
    """Returns a checkpoint of others, which project even if E = H.

    An identity, as of `from_tf1`, is left out; of others, the config tells.
    """
    config, arrays = source.known_config, source.arrays
    kernel, bias = (row.tf1 for row in variable_names.PROJECTION)
    if config.has_projection or kernel not in arrays:
        return source
    is_identity = np.array_equal(arrays[kernel], np.eye(config.hidden_size))
    if is_identity and not np.any(arrays[bias]):
        names = arrays.keys() - {kernel, bias}
        return dataclasses.replace(source, arrays={n: arrays[n] for n in names})
    config = dataclasses.replace(config, always_projects=True)
    return dataclasses.replace(source, config=config)
