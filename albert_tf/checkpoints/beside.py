"""What lies beside the weights of a checkpoint: config, vocabulary, metadata.

The format is recognised by the files. No array is read and TensorFlow is not
imported, so that a command can ask before it does.
"""

import contextlib
import dataclasses
import glob
import json
import os
import re
import zipfile
from collections.abc import Iterator

from albert_tf import checks, files, hub
from albert_tf.checkpoints import (
    huggingface,
    keras_hub,
    meaning,
    metadata,
    run_checkpoints,
)
from albert_tf.checkpoints.checkpoint import Checkpoint, Note
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.text import tokenizer
from albert_tf.text.tokenizer import Tokenizer

INDEX = ".index"
KERAS_FILE = "keras_file"
LITERT = "litert"
LITERT_FILE = "model.tflite"
_OUR_PACKAGE = "albert_tf."
_DAMAGES = (
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
)
_ENDING = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
_STATE_FILE = "checkpoint"
_VOCABULARIES = ("*.model", "*vocab*.txt")
_NAME = "vocabulary"
# A Hugging Face folder has one of these.
_SAFETENSORS = ("model.safetensors", "model.safetensors.index.json")


def recognise(path: files.Path) -> str:
    """Returns its format: of TF1, Hugging Face, KerasHub, Keras or LiteRT.

    They are `tf1`, `huggingface`, `keras_hub`, `keras_file` and `litert`.
    Checkpoints of our own runs are TF1 checkpoints.
    """
    name = files.check_local(path)
    if name.endswith(".keras"):
        return KERAS_FILE
    if any(os.path.isfile(os.path.join(name, one)) for one in _SAFETENSORS):
        return "huggingface"
    config = os.path.join(name, keras_hub.CONFIG_FILE)
    if "registered_name" in files.read_json_object(config, missing_ok=True):
        return "keras_hub"
    if os.path.isfile(os.path.join(name, LITERT_FILE)):
        return LITERT
    return "tf1"


def describe(
    path: files.Path, *, albert_config: AlbertConfig | None = None
) -> Checkpoint:
    """Reads a checkpoint of any format without its arrays.

    `albert_config`, if the user has given one, answers what is ambiguous in a
    Hugging Face folder.
    """
    format_name = recognise(path)
    with naming(path):
        if format_name == KERAS_FILE:
            return _describe_keras_file(os.fspath(path))
        if format_name == "huggingface":
            return huggingface.describe(path, albert_config=albert_config)
        if format_name == "keras_hub":
            return keras_hub.describe(path)
    prefix = os.fspath(path) if format_name == LITERT else resolve(path)
    vocabulary: str | None = None
    notes: list[Note] = []
    for folder in reversed(run_checkpoints.folders_of(prefix)):
        found, own_notes = _vocabulary_in(folder)
        vocabulary = found or vocabulary
        notes += own_notes
    return Checkpoint(
        config=_config_beside(prefix),
        vocabulary=vocabulary,
        metadata=metadata.read(prefix),
        notes=tuple(notes),
    )


def _describe_keras_file(path: str) -> Checkpoint:
    """Reads a file that Keras has saved one of our models in."""
    with zipfile.ZipFile(path) as archive:
        saved = json.loads(archive.read("config.json"))
    if not str(saved.get("module")).startswith(_OUR_PACKAGE):
        raise ValueError(
            f"{path!r} holds a {saved.get('class_name')} and not one of our "
            "models. Load it without other arguments, and use its `export`."
        )
    vocabulary, notes = _vocabulary_in(os.path.dirname(path))
    return Checkpoint(
        config=AlbertConfig.from_dict(saved["config"]["config"]),
        vocabulary=vocabulary,
        metadata=metadata.Metadata(
            **metadata.known(path, **saved["config"]["metadata"])
        ),
        notes=tuple(notes),
    )


def load_tokenizer(
    path: files.Path | None = None,
    *,
    spm_model_file: files.Path | None = None,
    vocab_file: files.Path | None = None,
    do_lower_case: bool | None = None,
) -> Tokenizer:
    """Loads the tokenizer of a checkpoint, or of a vocabulary.

    Args:
        path: A checkpoint of any format, or a run, with a vocabulary in its
            folder; or else:
        spm_model_file: SentencePiece model, as in the English checkpoints.
        vocab_file: WordPiece vocabulary, as in the Chinese checkpoints.
        do_lower_case: None for what the checkpoint says, or else true: the
            released English vocabulary has no capitals.
    """
    if path is None:
        return tokenizer.load_tokenizer(
            spm_model_file=spm_model_file,
            vocab_file=vocab_file,
            do_lower_case=do_lower_case is not False,
        )
    source = describe(hub.local_folder(path))
    check_vocabulary(source, os.fspath(path))
    if do_lower_case is not None:
        known = dataclasses.replace(
            source.metadata, do_lower_case=do_lower_case
        )
        source = dataclasses.replace(source, metadata=known)
    return meaning.as_trained(source).load_tokenizer()


def check_vocabulary(source: Checkpoint, where: str) -> None:
    """Checks that a checkpoint, at `where`, has one vocabulary."""
    if source.vocabulary is None:
        reasons = [n.text for n in source.notes if n.text.startswith(_NAME)]
        raise ValueError(
            f"There is no one vocabulary beside {where!r}"
            f"{''.join(f': {reason}' for reason in reasons)}. Put that of the "
            "training there, alone, or name it: commands have --spm_model_file "
            "and --vocab_file."
        )


@contextlib.contextmanager
def naming(path: files.Path) -> Iterator[None]:
    """Names a folder that another program wrote in errors that do not."""
    try:
        yield
    except _DAMAGES as error:
        if os.fspath(path) in str(error):
            raise
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{os.fspath(path)!r} is damaged or another model's ({reason})."
        ) from error


def _config_beside(prefix: str) -> AlbertConfig | None:
    """Returns the config beside a checkpoint, or in the folder of its run."""
    for folder in run_checkpoints.folders_of(prefix):
        name = os.path.join(folder, CONFIG_FILE)
        if os.path.isfile(name):
            return AlbertConfig.from_json_file(name)
    return None


def vocabularies_in(folder: str) -> list[str]:
    """Returns the paths of the vocabularies in a folder."""
    patterns = (
        os.path.join(glob.escape(folder), name) for name in _VOCABULARIES
    )
    return sorted(path for name in patterns for path in glob.glob(name))


def _vocabulary_in(folder: str) -> tuple[str | None, list[Note]]:
    paths = vocabularies_in(folder)
    if len(paths) < 2:
        return next(iter(paths), None), []
    names = checks.listed(map(os.path.basename, paths))
    text = f"{_NAME} ({names}: which of them is unknown)"
    return None, [Note("left out", text)]


# Where the files of a TF1 checkpoint are.


def resolve(path: files.Path) -> str:
    """Returns the prefix of the checkpoint at a path.

    That is a prefix; one of the files that begin with it; a folder, in which
    the file `checkpoint` names the prefix if there are several; or the folder
    of a run, which stands for its `run_checkpoints.trained_weights`.
    """
    name = files.check_local(path)
    name = run_checkpoints.trained_weights(name) or name
    if os.path.isdir(name):
        return _prefix_in_folder(name)
    prefix = _ENDING.sub("", name)
    if not os.path.isfile(prefix + INDEX):
        raise FileNotFoundError(
            f"There is no checkpoint {name!r}: no file {prefix + INDEX!r}. "
            "Pass the prefix or the folder of a checkpoint."
        )
    return prefix


def _prefix_in_folder(folder: str) -> str:
    prefixes = sorted(
        path.removesuffix(INDEX)
        for path in glob.glob(os.path.join(glob.escape(folder), f"*{INDEX}"))
    )
    if not prefixes:
        raise FileNotFoundError(
            f"Folder {folder!r} has no checkpoint (no file *{INDEX}). Pass "
            "the prefix or folder of one, the folder of a run, or a folder of "
            "KerasHub, or of Hugging Face with model.safetensors: "
            "`save_pretrained` of transformers writes it. Pickles are never "
            "read."
        )
    named = _prefix_in_state_file(folder)
    if named in prefixes:
        return named
    if len(prefixes) > 1:
        raise ValueError(
            f"Folder {folder!r} has {len(prefixes)} checkpoints and no file "
            f"`{_STATE_FILE}` that names one of them. Pass the prefix of one: "
            f"{checks.listed(prefixes)}."
        )
    return prefixes[0]


def _prefix_in_state_file(folder: str) -> str:
    state_file = os.path.join(folder, _STATE_FILE)
    if not os.path.isfile(state_file):
        return ""
    text = files.read_text(state_file)
    match = re.search(r'^model_checkpoint_path: "(.*)"', text, re.MULTILINE)
    # The released files name a folder on the machine that wrote them.
    base = os.path.basename(match.group(1)) if match else ""
    return os.path.join(folder, base)
