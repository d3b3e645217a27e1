"""Exports a checkpoint: a SavedModel that takes raw text, or a LiteRT file.

Data flow: checkpoint, vocabulary -> signatures -> [this file] -> D/<version>.
"""

import dataclasses
import itertools
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from albert_tf import config as config_lib
from albert_tf import files
from albert_tf.checkpoints import (
    checkpoint,
    compatibility,
    discovery,
    heads,
    litert_folder,
    load,
)
from albert_tf.checkpoints.checkpoint import Checkpoint, Note
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.export import (
    encoder_signatures,
    graph_tokenizer,
    litert,
    model_inputs,
    sequence_signatures,
    signature,
    squad_signatures,
    version_folder,
)
from albert_tf.export.export_config import (
    LENGTHS,
    LITERT,
    SPAN_LIMITS,
    ExportConfig,
)
from albert_tf.export.exported_encoder import ExportedWeights
from albert_tf.export.graph_tokenizer import GraphTokenizer
from albert_tf.export.signature import Signature
from albert_tf.text import tokenizer as tokenizers

_KERAS_DTYPES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
# The heads of `checkpoints.load` that serve a task, the preferred one first.
_HEADS = {
    "encoder": ("pretraining", "encoder"),
    "classifier": ("classifier",),
    "squad": ("span", "beam_span"),
    "race": ("multiple_choice",),
}
_SIGNATURES: dict[str, Any] = {
    "encoder": encoder_signatures.make_signatures,
    "classifier": sequence_signatures.classifier_signatures,
    "squad": squad_signatures.make_signatures,
    "race": sequence_signatures.multiple_choice_signatures,
}


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
    """
    version_folder.check_writable(config.export_dir)
    # The lengths of the task are checked against this one.
    config = _with_length(config, albert_config)
    vocab_size = tokenizers.load_tokenizer(
        spm_model_file=config.spm_model_file, vocab_file=config.vocab_file
    ).vocab_size
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

    `albert_config` is the shape of the model, if it is known already; None for
    that of `config.albert_config_file` or beside the checkpoint.
    """
    version_folder.check_version(config.export_dir, config.export_version)
    # 1. The checkpoint; its config, vocabulary and lengths, unless others are
    # given.
    if albert_config is None and config.albert_config_file:
        albert_config = config_lib.load_config(config.albert_config_file)
    source = discovery.open(config.init_checkpoint, albert_config=albert_config)
    albert_config = source.known_config
    source = compatibility.with_vocabulary(
        source, config.spm_model_file or config.vocab_file, config.do_lower_case
    )
    head = _find_head(config, source)
    task = next(task for task, heads in _HEADS.items() if head in heads)
    settings = source.settings
    known = task == "squad" and bool(source.metadata.null_from_cls)
    config = dataclasses.replace(
        config, task=task, null_from_cls=config.null_from_cls or known
    ).as_trained(settings)
    config = _with_length(config, albert_config)
    # 2. Text to tokens.
    tokenizer = graph_tokenizer.make(source.load_tokenizer())
    # 3. The model and copies of its weights.
    model = _make_model(head, config, source)
    left_out = load.load_checkpoint(model, source)
    weights = ExportedWeights(model.weights, precision=config.precision)
    # 4. The graph.
    signatures = _SIGNATURES[task](
        config, source.metadata, model, weights, tokenizer
    )
    # 5. The files, which appear all at once.
    module = tf.Module()
    module.weights = weights.copies
    path = version_folder.write_version(
        config.export_dir,
        config.export_version,
        lambda folder: _write(
            folder, module, tokenizer, signatures, config, source, settings
        ),
        batching=version_folder.batching_parameters(task),
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


def _with_length(
    config: ExportConfig, albert_config: AlbertConfig
) -> ExportConfig:
    """Returns the settings with the longest sequence made of raw text."""
    longest = albert_config.max_position_embeddings
    length = config.max_seq_length
    if length is None:
        length = min(config.seq_length, longest)
    if not model_inputs.MIN_SEQ_LENGTH <= length <= longest:
        raise ValueError(
            f"`max_seq_length` must be from {model_inputs.MIN_SEQ_LENGTH} to "
            f"the model's max_position_embeddings={longest} for an export. "
            f"Received: max_seq_length={length}."
        )
    return dataclasses.replace(config, max_seq_length=length)


def _find_head(config: ExportConfig, source: Checkpoint) -> str:
    if config.task is None:
        return source.head().name
    wanted = _HEADS[config.task]
    found = [
        head
        for head in wanted
        if head == "encoder" or heads.HEADS[head].groups & source.heads
    ]
    if not found:
        names = (heads.HEADS[head].groups for head in wanted)
        raise ValueError(
            f"{config.init_checkpoint!r} has no head for --task={config.task}. "
            f"Expected: {' or '.join(itertools.chain(*names))}. Received: "
            f"{', '.join(sorted(source.heads)) or 'none'}. Fine-tune it for "
            "the task first, or pass --task=encoder."
        )
    return found[0]


def _make_model(
    head: str, config: ExportConfig, source: Checkpoint
) -> keras.Model:
    """Makes a model with the heads of `source` and new weights."""
    compatibility.check_shapes(source)
    beams = {}
    if head == "beam_span":
        beams = {
            "start_n_top": config.start_n_top,
            "end_n_top": config.end_n_top,
        }
    return heads.HEADS[head].make_model(
        source.known_config,
        source,
        dtype=_KERAS_DTYPES[config.precision],
        **beams,
    )


def _write(
    folder: str,
    module: tf.Module,
    tokenizer: GraphTokenizer,
    signatures: list[Signature],
    config: ExportConfig,
    source: Checkpoint,
    settings: Mapping[str, Any],
) -> None:
    functions = {one.name: one.function for one in signatures}
    if config.format == LITERT:
        content = litert.convert(
            functions[signature.TOKENS],
            module,
            quantizes=bool(config.quantize),
        )
        path = os.path.join(folder, litert_folder.MODEL_FILE)
        with files.atomic_write(path) as file:
            file.write(content)
        _write_beside(folder, config, source, settings)
        return
    served = tf.Module()
    served.weights = module.weights
    served.tokenizer = tokenizer.resource
    with tempfile.TemporaryDirectory() as temporary:
        source.known_config.to_json_file(os.path.join(temporary, CONFIG_FILE))
        checkpoint.write_vocabulary(source, temporary)
        served.assets = [
            tf.saved_model.Asset(os.path.join(temporary, name))
            for name in sorted(os.listdir(temporary))
        ]
        with litert.without_progress_messages():
            tf.saved_model.save(served, folder, signatures=functions)
    signature.check_operations(folder)
    requests = [
        (one.name, inputs) for one in signatures for inputs in one.warmup
    ]
    version_folder.write_warmup(folder, requests, model_name=config.model_name)


def _write_beside(
    folder: str,
    config: ExportConfig,
    source: Checkpoint,
    settings: Mapping[str, Any],
) -> None:
    """Writes what `load_predictor` needs besides the model."""
    known = source.metadata
    given: dict[str, Any] = {
        "labels": config.labels,
        "thresholds": config.thresholds,
        "null_threshold": config.null_score_diff_threshold,
    }
    given = {n: value for n, value in given.items() if value not in (None, ())}
    source = dataclasses.replace(
        source, metadata=dataclasses.replace(known, **given)
    )
    own = {name: getattr(config, name) for name in (*LENGTHS, *SPAN_LIMITS)}
    litert_folder.write_beside(folder, source, {**settings, **own})
