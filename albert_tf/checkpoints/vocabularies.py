"""The vocabulary of a checkpoint: found, checked, extended, written.

The arrays do not show the vocabulary nor the normalization of text. Where they
contradict the training, it is an error. Without TensorFlow.
"""

import dataclasses
import fnmatch
import glob
import itertools
import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf import checks, files
from albert_tf.checkpoints.checkpoint import (
    REFUSED,
    VOCABULARY,
    Checkpoint,
    LazyArrays,
    Note,
)
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.text import vocabulary_file
from albert_tf.text.tokenizer import VocabularyBeside
from albert_tf.text.vocabulary_file import (
    SENTENCEPIECE,
    SYMBOLS,
    SYMBOLS_FILE,
    WORDPIECE,
)

if TYPE_CHECKING:
    from albert_tf.text.base import Tokenizer

_LOGGER = logging.getLogger(__name__)
# The usual names of the files, by kind.
FILE_NAMES = {
    SYMBOLS: SYMBOLS_FILE,
    SENTENCEPIECE: "spiece.model",
    WORDPIECE: "vocab.txt",
}
_PATTERNS = ("*.model", "*vocab*.txt", f"*{SYMBOLS_FILE}")
_ROWS_BY_TOKEN = {
    "bert/embeddings/word_embeddings",
    "cls/predictions/output_bias",
}


def paths_in(folder: files.Path) -> list[str]:
    """Returns the paths of the vocabularies in a folder."""
    root = os.path.join(glob.escape(os.fspath(folder)), "")
    paths = (glob.glob(f"{root}{pattern}") for pattern in _PATTERNS)
    return sorted(itertools.chain(*paths))


def find(folder: str) -> tuple[str | None, list[Note]]:
    """Returns the only vocabulary in a folder, or notes why there is none."""
    paths = paths_in(folder)
    if len(paths) < 2:
        return next(iter(paths), None), []
    names = checks.listed(map(os.path.basename, paths))
    text = f"{VOCABULARY} ({names}: which of them is unknown)"
    return None, [Note("left out", text)]


def write(checkpoint: Checkpoint, folder: str, name: str | None = None) -> None:
    """Writes the vocabulary of a checkpoint that has one into a folder.

    Without `name`, the file keeps its name if `find` finds such names.
    """
    path, kind = str(checkpoint.vocabulary), checkpoint.vocabulary_kind
    if name is None:
        name = os.path.basename(path)
        if kind == SYMBOLS or not any(
            fnmatch.fnmatch(name, pattern) for pattern in _PATTERNS
        ):
            name = FILE_NAMES[kind]
    with files.atomic_write(os.path.join(folder, name)) as file:
        file.write(checkpoint.content or vocabulary_file.read(path))


def with_vocabulary(
    checkpoint: Checkpoint, options: VocabularyBeside, *, may_lack: bool = False
) -> Checkpoint:
    """Returns a checkpoint with the vocabulary and normalization to use.

    The user's choice comes first, then the checkpoint's. A checkpoint without a
    vocabulary is an error, unless it `may_lack` one, and so is another
    tokenizer than in the training.
    """
    new = options.spm_model_file or options.vocab_file
    path, result = new or checkpoint.vocabulary, checkpoint
    if path != checkpoint.vocabulary:
        # Notes on the vocabulary of the checkpoint do not apply.
        notes = (note for note in checkpoint.notes if note.kind != REFUSED)
        result = dataclasses.replace(
            checkpoint, vocabulary=path, content=None, notes=tuple(notes)
        )
    stated = {n: getattr(options, n) for n in ("do_lower_case", "keep_accents")}
    result = as_trained(result, **stated)
    for name, value in stated.items():
        stored = getattr(checkpoint.metadata, name)
        if None not in (stored, value) and stored != value:
            text = "The checkpoint says %s=%s; %s is used, as you say."
            _LOGGER.warning(text, name, stored, value)
    is_refused = any(note.kind == REFUSED for note in result.notes)
    if path is None and may_lack and not is_refused:
        return result
    num_tokens = result.tokenizer.vocab_size
    vocab_size = checkpoint.known_config.vocab_size
    is_replaced = new and checkpoint.vocabulary not in (None, new)
    if is_replaced and _tokens(result.tokenizer) != _tokens(
        checkpoint.tokenizer
    ):
        raise ValueError(
            "The given vocabulary differs from the one beside the "
            f"checkpoint, {checkpoint.vocabulary}. Leave it out."
        )
    # A vocabulary beside its checkpoint may have fewer: the rest is padding.
    is_certain = checkpoint.vocabulary or checkpoint.metadata.tokenizer_hash
    if num_tokens > vocab_size or (num_tokens < vocab_size and not is_certain):
        raise ValueError(
            f"The vocabulary {path!r} has {num_tokens} tokens, but the config "
            f"has vocab_size={vocab_size}. Pass the vocabulary that the model "
            "was trained with."
        )
    return result


def _tokens(tokenizer: "Tokenizer") -> list[str]:
    return [*map(tokenizer.id_to_token, range(tokenizer.vocab_size))]


def check_tokens(checkpoint: Checkpoint, used: Checkpoint) -> None:
    """Checks that a vocabulary gives tokens the ids that a checkpoint has.

    One may have more tokens. Where a vocabulary is not known, all is right.
    """
    if None in (checkpoint.vocabulary, used.vocabulary):
        return
    tokens, others = _tokens(checkpoint.tokenizer), _tokens(used.tokenizer)
    common = min(len(tokens), len(others))
    if tokens[:common] != others[:common]:
        raise ValueError(
            f"The vocabulary of the records, {used.vocabulary}, has other "
            f"tokens than {checkpoint.vocabulary}, beside the weights, or "
            "other new tokens. Make records with that, and the same "
            "--new_tokens in the same order; or leave --init_checkpoint out."
        )


def with_new_tokens(checkpoint: Checkpoint, names: Sequence[str]) -> Checkpoint:
    """Returns the weights with more tokens; see `Tokenizer.with_tokens`.

    The rows of a new word are the means of its pieces' rows, and the rows of
    another token the means of all tokens' rows.
    """
    if not names:
        return checkpoint
    checkpoint = as_trained(checkpoint)
    old, new = checkpoint.tokenizer, checkpoint.tokenizer.with_tokens(names)
    size = max(checkpoint.known_config.vocab_size, new.vocab_size)
    tokens = _tokens(new)[old.vocab_size :]
    pieces = [
        old.encode(token)
        if new.settings.added_tokens.get(token)
        else range(old.vocab_size)
        for token in tokens
    ]

    def read(_: str) -> Mapping[str, np.ndarray]:
        arrays = checkpoint.weights
        for name in _ROWS_BY_TOKEN & arrays.keys():
            rows = arrays[name]
            used, padding = rows[: old.vocab_size], rows[new.vocab_size :]
            added = [used[ids].mean(0, keepdims=True) for ids in pieces]
            arrays[name] = np.concatenate([used, *added, padding])
        return arrays

    old_hash = checkpoint.metadata.tokenizer_hash
    return dataclasses.replace(
        checkpoint,
        arrays=LazyArrays(checkpoint.path, read),
        config=dataclasses.replace(checkpoint.known_config, vocab_size=size),
        content=new.vocabulary,
        metadata=dataclasses.replace(
            checkpoint.metadata,
            tokenizer_hash=old_hash and new.fingerprint,
            **new.settings.stated(),
        ),
    )


def as_trained(checkpoint: Checkpoint, **settings: Any) -> Checkpoint:
    """Returns a checkpoint with some settings of its tokenizer replaced.

    If the tokenizer of its training is known, the result must have that
    tokenizer. Settings of None are not replaced.
    """
    stated = Metadata(**settings).combined(checkpoint.metadata)
    checkpoint = dataclasses.replace(checkpoint, metadata=stated)
    if stated.tokenizer_hash is None or checkpoint.vocabulary is None:
        return checkpoint
    cases = (stated.do_lower_case,)
    for lowers in (True, False) if cases == (None,) else cases:
        new = dataclasses.replace(stated, do_lower_case=lowers)
        result = dataclasses.replace(checkpoint, metadata=new)
        if result.tokenizer.fingerprint == stated.tokenizer_hash:
            # A list of symbols lower-cases nothing, whatever is stated.
            if result.tokenizer.settings.do_lower_case == lowers:
                return result
            new = dataclasses.replace(stated, do_lower_case=False)
            return dataclasses.replace(checkpoint, metadata=new)
    raise ValueError(
        f"The model was trained with another tokenizer than "
        f"{checkpoint.vocabulary!r} ({stated.tokenizer_settings}). Pass the "
        "vocabulary, do_lower_case and keep_accents of its training."
    )
