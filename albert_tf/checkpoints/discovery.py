"""Opens a checkpoint of any format: what it is, and what lies beside it.

No array is read, and neither TensorFlow nor KerasHub is imported, before the
arrays are asked for.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Mapping

from albert_tf import files, hub
from albert_tf.checkpoints import (
    checkpoint,
    compatibility,
    huggingface,
    keras_file,
    keras_hub,
    tf1,
)
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig, load_config
from albert_tf.text import tokenizer
from albert_tf.text.tokenizer import Tokenizer

LITERT, ONNX = "litert", "onnx"
# The models that an export has in its folder; the first one there is run.
EXPORTED_MODELS = {
    LITERT: ("model.tflite",),
    # As transformers.js calls them.
    ONNX: ("onnx/model_int8.onnx", "onnx/model.onnx"),
}


def _describe_export(path: str, _: AlbertConfig | None) -> Checkpoint:
    arrays = checkpoint.LazyArrays(path, _no_arrays)
    source = tf1.describe_folders([path], arrays)
    if not source.metadata.head:
        raise ValueError(
            f"{path!r} was exported by another program. Pass an export of "
            "export_saved_model.py, or a checkpoint."
        )
    return source


def _no_arrays(path: str) -> checkpoint.Arrays:
    raise ValueError(
        f"{path!r} is an export for LiteRT or ONNX, which only "
        "`load_predictor` runs. Pass the checkpoint it was made of."
    )


# They describe a checkpoint at a path, with arrays that are not read yet.
_DESCRIBERS: Mapping[str, Callable[[str, AlbertConfig | None], Checkpoint]] = {
    "tf1": tf1.describe,
    "huggingface": huggingface.describe,
    "keras_hub": keras_hub.describe,
    "keras_file": keras_file.describe,
    **dict.fromkeys(EXPORTED_MODELS, _describe_export),
}


def recognise(path: str) -> str:
    """Returns `tf1`, `huggingface`, `keras_hub`, `keras_file` or an export's.

    Checkpoints of our own runs are TF1 checkpoints.
    """
    if path.endswith(".keras"):
        return "keras_file"
    weights = (os.path.join(path, one) for one in huggingface.WEIGHTS_FILES)
    if any(map(os.path.isfile, weights)):
        return "huggingface"
    config = os.path.join(path, keras_hub.CONFIG_FILE)
    if "registered_name" in files.read_json_object(config, missing_ok=True):
        return "keras_hub"
    for format_name in EXPORTED_MODELS:
        if exported_model(path, format_name):
            return format_name
    return "tf1"


def exported_model(folder: str, format_name: str) -> str | None:
    """Returns the path of the model of an export that is to be run, if any."""
    names = EXPORTED_MODELS[format_name]
    paths = (os.path.join(folder, name) for name in names)
    return next(filter(os.path.isfile, paths), None)


def open(  # noqa: A001
    path: files.Path,
    *,
    albert_config: AlbertConfig | str | None = None,
    may_change_layers: bool = False,
) -> Checkpoint:
    """Opens a checkpoint of any format that `recognise` knows.

    Args:
        path: A prefix, file or folder, `hf://owner/name`, or the folder of a
            run, which stands for its `run_checkpoints.trained_weights`.
        albert_config: Replaces the config beside the checkpoint, which it must
            agree with, and answers what is ambiguous in it. A text is that of
            `load_config`, or empty.
        may_change_layers: Whether it may have other layers.
    """
    wanted = albert_config or None
    if isinstance(wanted, str):
        wanted = load_config(wanted)
    name = files.check_local(hub.local_folder(os.fspath(path)))
    name = huggingface.model_folder(name)
    format_name = recognise(name)
    # Our own files name themselves in errors.
    is_ours = format_name in ("tf1", *EXPORTED_MODELS)
    with contextlib.nullcontext() if is_ours else checkpoint.naming(name):
        source = _DESCRIBERS[format_name](name, wanted)
    return compatibility.with_config(
        dataclasses.replace(source, path=name, format=format_name),
        wanted,
        may_change_layers=may_change_layers,
    )


def load_tokenizer(
    path: files.Path | None = None,
    *,
    spm_model_file: files.Path | None = None,
    vocab_file: files.Path | None = None,
    do_lower_case: bool | None = None,
    keep_accents: bool | None = None,
) -> Tokenizer:
    """Loads the tokenizer of a checkpoint, or of a vocabulary.

    Args:
        path: A checkpoint of any format, or a run; or else:
        spm_model_file: SentencePiece model, as in the English checkpoints.
        vocab_file: WordPiece vocabulary, as in the Chinese checkpoints.
        do_lower_case: None for what the checkpoint says, or else true: the
            released English vocabulary has no capitals.
        keep_accents: Whether letters keep their accents. None for what the
            checkpoint says, or else no, but for WordPiece of cased text.
    """
    if path is None:
        return tokenizer.load_tokenizer(
            spm_model_file=spm_model_file,
            vocab_file=vocab_file,
            do_lower_case=do_lower_case is not False,
            keep_accents=keep_accents,
        )
    source = open(path)
    stated = {"do_lower_case": do_lower_case, "keep_accents": keep_accents}
    return compatibility.as_trained(source, **stated).tokenizer
