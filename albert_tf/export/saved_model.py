"""Exports a checkpoint as a SavedModel that takes raw text.

Data flow: checkpoint, vocabulary -> signatures -> [this file] -> D/<version>.
"""

import contextlib
import dataclasses
import logging
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from albert_tf import config as config_lib
from albert_tf import files
from albert_tf.checkpoints import checkpoint, load, meaning
from albert_tf.checkpoints.checkpoint import Checkpoint, Note
from albert_tf.config import AlbertConfig
from albert_tf.export import (
    exported_tasks,
    exported_text,
    signature,
    version_folder,
)
from albert_tf.export.export_config import ExportConfig
from albert_tf.export.exported_encoder import ExportedWeights
from albert_tf.export.exported_text import TextGraph
from albert_tf.export.sentencepiece_graph import SentencePieceGraph
from albert_tf.export.signature import Signature
from albert_tf.export.wordpiece_graph import WordPieceGraph

CONFIG_FILE = "albert_config.json"
LITERT_FILE = "model.tflite"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportSummary:
    """What an export has written; `str` gives the lines for the user.

    `path` is the folder of the version; `left_out` names the arrays of the
    checkpoint that the task does not use; `notes` are on what else of it is
    not in the export.
    """

    path: str
    signatures: tuple[str, ...]
    num_bytes: int
    left_out: tuple[str, ...]
    notes: tuple[Note, ...]

    def __str__(self) -> str:
        reason = "the task has no use for it"
        lines = [
            f"{note.kind:11}{note.text}"
            for note in (
                *(Note("left out", f"{n} ({reason})") for n in self.left_out),
                *self.notes,
            )
        ]
        lines += [
            f"signatures {', '.join(self.signatures)}",
            f"written    {self.path} ({self.num_bytes / 1e6:.2f} MB)",
        ]
        return "\n".join(lines)


def check(config: ExportConfig, albert_config: AlbertConfig) -> None:
    """Checks, before a model is trained, that it can be exported afterwards.

    The checkpoint is not read, and nothing is written.

    Raises:
        FileNotFoundError: The vocabulary is missing.
        ValueError: The folder cannot be written, a length is impossible, or
            the vocabulary cannot be exported or is too large for the model.
    """
    version_folder.check_writable(config.export_dir)
    length = _seq_length(config, albert_config)
    # The lengths of the task are checked against this one.
    config = dataclasses.replace(config, max_seq_length=length)
    vocab_size = len(_load_text_graph(config).tokens)
    if vocab_size != albert_config.vocab_size:
        raise ValueError(
            f"The vocabulary has {vocab_size} tokens, but the config has "
            f"vocab_size={albert_config.vocab_size}. Pass the vocabulary that "
            "the model was trained with."
        )


def export(
    config: ExportConfig, *, albert_config: AlbertConfig | None = None
) -> ExportSummary:
    """Exports a checkpoint.

    Args:
        config: Settings of the export.
        albert_config: Shape of the model, if it is known already; None for
            that of `config.albert_config_file` or beside the checkpoint.

    Raises:
        FileNotFoundError: A file is missing.
        ImportError: The checkpoint's format needs a package that is not
            installed.
        ValueError: The checkpoint is damaged or does not match its config,
            the vocabulary is not the model's, there is no head for the task,
            a setting is impossible, the version exists, or the graph has an
            operation that TF Serving may not know.
    """
    version_folder.check_version(config.export_dir, config.export_version)
    # 1. The checkpoint; its config and vocabulary, unless others are given.
    if albert_config is None and config.albert_config_file:
        albert_config = config_lib.load_config(config.albert_config_file)
    source = load.read(config.init_checkpoint, albert_config=albert_config)
    albert_config = checkpoint.known_config(source)
    source = meaning.with_vocabulary(
        source, config.spm_model_file or config.vocab_file, config.do_lower_case
    )
    config = _complete(config, source, albert_config)
    # 2. Text to tokens.
    text_graph = _load_text_graph(config)
    # 3. The model and copies of its weights.
    model = exported_tasks.make_model(config, source, albert_config)
    left_out = load.assign(model, source.weights, config.init_checkpoint)
    weights = ExportedWeights(model.weights, precision=config.precision)
    # 4. The graph.
    signatures = exported_tasks.make_signatures(
        config, source.metadata, model, weights, text_graph
    )
    for one in signatures:
        signature.check_operations(one.function, one.name)
    # 5. The files, which appear all at once.
    path = version_folder.write_version(
        config.export_dir,
        config.export_version,
        lambda folder: _write(folder, weights, signatures, config, source),
        batching=version_folder.batching_parameters(config.task),
    )
    return ExportSummary(
        path=path,
        signatures=tuple(one.name for one in signatures),
        num_bytes=sum(
            os.path.getsize(os.path.join(parent, name))
            for parent, _, names in os.walk(path)
            for name in names
        ),
        left_out=tuple(left_out),
        notes=(*source.notes, *_notes(config, source)),
    )


def _notes(config: ExportConfig, source: Checkpoint) -> list[Note]:
    """Returns notes on replaced labels and unknown thresholds."""
    known, notes = source.metadata, []
    if config.labels and known.labels not in (None, config.labels):
        notes = checkpoint.notes_of(
            {"labels": known.labels}, "--labels replaces them"
        )
    has_thresholds = config.thresholds or known.thresholds
    if config.task == "classifier" and known.multi_label and not has_thresholds:
        text = "a threshold of 0.5 for every label (the checkpoint has none)"
        notes.append(Note("assumed", text))
    return notes


def _complete(
    config: ExportConfig, source: Checkpoint, albert_config: AlbertConfig
) -> ExportConfig:
    """Fills in what the checkpoint and its model decide."""
    path = source.vocabulary
    is_wordpiece = path is not None and path.endswith(".txt")
    return dataclasses.replace(
        config,
        max_seq_length=_seq_length(config, albert_config),
        do_lower_case=source.do_lower_case,
        spm_model_file=None if is_wordpiece else path,
        vocab_file=path if is_wordpiece else None,
    )


def _seq_length(config: ExportConfig, albert_config: AlbertConfig) -> int:
    """Returns the longest sequence made of raw text, checked."""
    longest = albert_config.max_position_embeddings
    length = config.max_seq_length
    if length is None:
        length = min(config.seq_length, longest)
    if not exported_text.MIN_SEQ_LENGTH <= length <= longest:
        raise ValueError(
            f"`max_seq_length` must be from {exported_text.MIN_SEQ_LENGTH} to "
            f"the model's max_position_embeddings={longest} for an export. "
            f"Received: max_seq_length={length}."
        )
    return length


def _load_text_graph(config: ExportConfig) -> TextGraph:
    do_lower_case = config.do_lower_case is not False
    if config.spm_model_file:
        return SentencePieceGraph(
            config.spm_model_file, do_lower_case=do_lower_case
        )
    if config.vocab_file:
        return WordPieceGraph(config.vocab_file, do_lower_case=do_lower_case)
    raise ValueError(
        "No vocabulary is given. Pass `spm_model_file` (SentencePiece) or "
        "`vocab_file` (WordPiece)."
    )


def _write(
    folder: str,
    weights: ExportedWeights,
    signatures: list[Signature],
    config: ExportConfig,
    source: Checkpoint,
) -> None:
    functions = {one.name: one.function for one in signatures}
    module = tf.Module()
    module.weights = weights.copies
    with tempfile.TemporaryDirectory() as temporary:
        checkpoint.known_config(source).to_json_file(
            os.path.join(temporary, CONFIG_FILE)
        )
        checkpoint.write_vocabulary(source, temporary)
        module.assets = [
            tf.saved_model.Asset(os.path.join(temporary, name))
            for name in sorted(os.listdir(temporary))
        ]
        with _without_progress_messages():
            tf.saved_model.save(module, folder, signatures=functions)
            if config.tflite:
                content = to_litert(functions[signature.TOKENS], module)
                path = os.path.join(folder, LITERT_FILE)
                with files.atomic_write(path) as file:
                    file.write(content)
    requests = [
        (one.name, inputs) for one in signatures for inputs in one.warmup
    ]
    version_folder.write_warmup(folder, requests, model_name=config.model_name)


def to_litert(function: Any, module: tf.Module) -> bytes:
    """Converts the signature `tokens` to LiteRT, for phones.

    Inputs and outputs keep their names; batch and length are dynamic. Only
    LiteRT's own operations are used. `module` holds the weights. Returns the
    content of a `.tflite` file.

    Raises:
        ValueError: An operation has no counterpart in LiteRT.
    """
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [function], module
    )
    try:
        return bytes(converter.convert())
    except Exception as error:
        # The message holds the whole graph; its first line is the reason.
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"The signature {signature.TOKENS!r} cannot be converted to "
            f"LiteRT: {reason}. Leave --tflite out."
        ) from error


@contextlib.contextmanager
def _without_progress_messages() -> Iterator[None]:
    """Suppresses TensorFlow's messages about every file that it writes."""
    disabled = logging.root.manager.disable
    logging.disable(max(disabled, logging.INFO))
    try:
        yield
    finally:
        logging.disable(disabled)
