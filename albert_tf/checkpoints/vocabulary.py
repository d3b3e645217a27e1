"""The vocabulary of a checkpoint: found, checked, written beside it.

NumPy: no TensorFlow.
"""

import dataclasses
import os
import shutil

from albert_tf import files
from albert_tf.checkpoints.checkpoint import Checkpoint, known_config
from albert_tf.text import sentencepiece_tokenizer
from albert_tf.text import tokenizer as tokenizer_lib
from albert_tf.text.tokenizer import Tokenizer

_SPM_FILE = "spiece.model"
_WORDPIECE_FILE = "vocab.txt"


def load_tokenizer(source: Checkpoint) -> Tokenizer:
    """Loads the tokenizer of a checkpoint that has a vocabulary."""
    is_wordpiece = str(source.vocabulary).endswith(".txt")
    return tokenizer_lib.load_tokenizer(
        spm_model_file=None if is_wordpiece else source.vocabulary,
        vocab_file=source.vocabulary if is_wordpiece else None,
        do_lower_case=source.do_lower_case,
    )


def write_vocabulary(
    source: Checkpoint, folder: str, name: str | None = None
) -> None:
    """Writes the vocabulary of a checkpoint that has one into a folder.

    Args:
        source: The checkpoint.
        folder: Where to.
        name: Name of the file; None for its own, if `tf1` would find it.
    """
    path = str(source.vocabulary)
    own = os.path.basename(path)
    if path.endswith(".txt"):
        # Where a checkpoint is read, a vocabulary is found by its name.
        name = name or (own if "vocab" in own else _WORDPIECE_FILE)
        shutil.copyfile(path, os.path.join(folder, name))
        return
    name = name or (own if path.endswith(".model") else _SPM_FILE)
    with files.atomic_write(os.path.join(folder, name)) as file:
        file.write(sentencepiece_tokenizer.read_model(path))


def with_vocabulary(
    source: Checkpoint, given: str | None, do_lower_case: bool | None
) -> Checkpoint:
    """Returns a checkpoint with the vocabulary and lower-casing to use.

    Args:
        source: The checkpoint, with its config.
        given: Vocabulary that the user names; None for the one beside the
            checkpoint, if any.
        do_lower_case: What the user says; None for what is known of the
            checkpoint. If the tokenizer that the model was trained with is
            known, it decides.

    Raises:
        FileNotFoundError: There is no such vocabulary.
        ValueError: It cannot be that of the model: it differs from the one
            beside the checkpoint, from the one that the model was trained
            with, or in its number of tokens.
    """
    if do_lower_case is None:
        do_lower_case = source.metadata.do_lower_case
    beside, path = source.vocabulary, given or source.vocabulary
    if path is None:
        return _with(source, None, do_lower_case)
    found = _as_trained(_with(source, path, do_lower_case))
    tokenizer = load_tokenizer(found)
    if beside and given and beside != given:
        _check_same_tokens(tokenizer, load_tokenizer(source), beside)
    wanted = known_config(source).vocab_size
    # A vocabulary beside its checkpoint may have fewer: the rest is padding.
    is_certain = beside or source.metadata.tokenizer_hash
    size = tokenizer.vocab_size
    if size > wanted or (size < wanted and not is_certain):
        raise ValueError(
            f"The vocabulary {path!r} has {size} tokens, but the config has "
            f"vocab_size={wanted}. Pass the vocabulary that the model was "
            "trained with."
        )
    return found


def _with(
    source: Checkpoint, vocabulary: str | None, do_lower_case: bool | None
) -> Checkpoint:
    return dataclasses.replace(
        source,
        vocabulary=vocabulary,
        metadata=dataclasses.replace(
            source.metadata, do_lower_case=do_lower_case
        ),
    )


def _as_trained(source: Checkpoint) -> Checkpoint:
    """Returns the checkpoint with the lower-casing of its training, if known.

    Raises:
        ValueError: Its training used another tokenizer.
    """
    trained_with = source.metadata.tokenizer_hash
    if trained_with is None:
        return source
    lower = source.metadata.do_lower_case
    for is_lower in [True, False] if lower is None else [lower]:
        found = _with(source, source.vocabulary, is_lower)
        if load_tokenizer(found).hash == trained_with:
            return found
    case = "" if lower is None else f" with do_lower_case={str(lower).lower()}"
    raise ValueError(
        f"The model was trained with another tokenizer than "
        f"{source.vocabulary!r}{case}. Pass the vocabulary and "
        "--do_lower_case of its training."
    )


def _check_same_tokens(given: Tokenizer, known: Tokenizer, beside: str) -> None:
    tokens, wanted = (
        [*map(one.id_to_token, range(one.vocab_size))] for one in (given, known)
    )
    if tokens != wanted:
        raise ValueError(
            "The given vocabulary differs from the one beside the checkpoint, "
            f"{beside}. Leave out --spm_model_file and --vocab_file."
        )
