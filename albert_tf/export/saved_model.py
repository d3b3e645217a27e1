"""Exports a checkpoint: a SavedModel that takes raw text, or a LiteRT file.

Data flow: checkpoint, vocabulary -> signatures -> [this file] -> D/<version>.
"""

import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from albert_tf import config as config_lib
from albert_tf.checkpoints import (
    checkpoint,
    compatibility,
    discovery,
    load,
)
from albert_tf.checkpoints.checkpoint import Checkpoint, Note
from albert_tf.checkpoints.heads import ENCODER
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.export import litert, version_folder
from albert_tf.export.export_config import LITERT, ExportConfig
from albert_tf.serving import graph_tokenizer, model_inputs, signature
from albert_tf.serving.exported_encoder import ExportedWeights
from albert_tf.serving.signature import Signature
from albert_tf.tasks import table
from albert_tf.tasks.serving_settings import ServingSettings
from albert_tf.tasks.spec import Exported, TaskSpec
from albert_tf.text import tokenizer as tokenizers

_NOT_USED = "the task has no use for it"
_KERAS_DTYPES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportSummary:
    """What an export has written; `str` gives the lines for the user.

    `path` is the folder of the version; `notes` are on what of the checkpoint
    is not in the export.
    """

    path: str
    signatures: tuple[str, ...]
    num_bytes: int
    notes: tuple[Note, ...]

    def __str__(self) -> str:
        lines = [f"{note.kind:11}{note.text}" for note in self.notes]
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
    for spec in config.specs:
        _settings(config, spec, {}, albert_config)
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
    version_folder.version_path(config.export_dir, config.export_version)
    # 1. The checkpoint; its config, vocabulary and lengths, unless others are
    # given.
    if albert_config is None and config.albert_config_file:
        albert_config = config_lib.load_config(config.albert_config_file)
    source = discovery.open(config.init_checkpoint, albert_config=albert_config)
    source = compatibility.with_vocabulary(
        source, config.spm_model_file or config.vocab_file, config.do_lower_case
    )
    spec = _find_spec(config, source)
    settings = _settings(config, spec, source.settings, source.known_config)
    # 2. Text to tokens; the model and copies of its weights.
    tokenizer = graph_tokenizer.make(source.load_tokenizer())
    model, left_out = _load_model(config, spec, settings, source)
    exported = Exported(
        settings=settings,
        metadata=source.metadata,
        model=model,
        weights=ExportedWeights(model.weights, precision=config.precision),
        tokenizer=tokenizer,
    )
    # 3. The graph.
    signatures = spec.make_signatures(exported)

    # 4. The files, which appear all at once.
    def write(folder: str) -> None:
        if config.format == LITERT:
            _write_litert(config, folder, exported, signatures, spec, source)
            return
        _write(folder, exported, signatures, source)
        version_folder.write_warmup(
            folder, signatures, model_name=config.model_name
        )

    path = version_folder.write_version(
        config.export_dir,
        config.export_version,
        write,
        batching=version_folder.batching_parameters(
            spec.served_batch_size, joins_outputs=spec.joins_outputs
        ),
    )
    return ExportSummary(
        path=path,
        signatures=tuple(one.name for one in signatures),
        num_bytes=_num_bytes(path),
        notes=(
            *(Note("left out", f"{n} ({_NOT_USED})") for n in left_out),
            *source.notes,
            *settings.notes(source.metadata),
        ),
    )


def _num_bytes(folder: str) -> int:
    found = pathlib.Path(folder).rglob("*")
    return sum(path.stat().st_size for path in found if path.is_file())


def _find_spec(config: ExportConfig, source: Checkpoint) -> TaskSpec:
    """Returns the head to export, which the checkpoint has."""
    asked_for = config.asked_for
    if not asked_for:
        return table.spec_of(source.head().name)
    found = [spec for spec in config.specs if spec.head.groups & source.heads]
    found += [spec for spec in config.specs if not spec.head.groups]
    if not found:
        wanted = {g for spec in config.specs for g in spec.head.groups}
        raise ValueError(
            f"{config.init_checkpoint!r} has no head for --{asked_for}. "
            f"Expected: {' or '.join(sorted(wanted, reverse=True))}. Received: "
            f"{', '.join(sorted(source.heads)) or 'none'}. Fine-tune it for "
            f"the task first, or pass --head={ENCODER.name}."
        )
    return found[0]


def _settings(
    config: ExportConfig,
    spec: TaskSpec,
    trained: Mapping[str, Any],
    albert_config: AlbertConfig,
) -> ServingSettings:
    """Returns the settings of a head; `trained` are those of a fine-tuning."""
    longest = albert_config.max_position_embeddings
    defaults = {
        name: trained[name]
        for name in ("max_seq_length", *spec.serving_settings.as_trained)
        # The vectors of an encoder do not depend on the task.
        if spec.is_finetuned and trained.get(name) is not None
    }
    length = defaults.get("max_seq_length", spec.max_seq_length)
    defaults["max_seq_length"] = min(length, longest)
    settings = config.settings_of(spec, defaults)
    if not model_inputs.MIN_SEQ_LENGTH <= settings.max_seq_length <= longest:
        raise ValueError(
            f"`max_seq_length` must be from {model_inputs.MIN_SEQ_LENGTH} to "
            f"the model's max_position_embeddings={longest} for an export. "
            f"Received: max_seq_length={settings.max_seq_length}."
        )
    return settings


def _load_model(
    config: ExportConfig,
    spec: TaskSpec,
    settings: ServingSettings,
    source: Checkpoint,
) -> tuple[keras.Model, list[str]]:
    """Returns the model, and the names of arrays that it has no use for."""
    compatibility.check_shapes(source)
    model = spec.head.make_model(
        source.known_config,
        source,
        dtype=_KERAS_DTYPES[config.precision],
        **spec.model_arguments(settings),
    )
    return model, load.load_checkpoint(model, source)


def _write(
    folder: str,
    exported: Exported,
    signatures: Sequence[Signature],
    source: Checkpoint,
) -> None:
    """Writes a SavedModel with its vocabulary."""
    served = tf.Module()
    served.weights = exported.weights.copies
    served.tokenizer = exported.tokenizer.resource
    with tempfile.TemporaryDirectory() as temporary:
        source.known_config.to_json_file(os.path.join(temporary, CONFIG_FILE))
        checkpoint.write_vocabulary(source, temporary)
        served.assets = [
            tf.saved_model.Asset(os.path.join(temporary, name))
            for name in sorted(os.listdir(temporary))
        ]
        with litert.without_progress_messages():
            tf.saved_model.save(
                served,
                folder,
                signatures={one.name: one.function for one in signatures},
            )
    signature.check_operations(folder)


def _write_litert(
    config: ExportConfig,
    folder: str,
    exported: Exported,
    signatures: Sequence[Signature],
    spec: TaskSpec,
    source: Checkpoint,
) -> None:
    """Writes a model for LiteRT and, beside it, what describes it."""
    settings = exported.settings
    [from_ids] = (s for s in signatures if s.name == signature.TOKENS)
    litert.write(
        folder,
        from_ids.function,
        exported.weights,
        quantizes=bool(config.quantize),
    )
    metadata = dataclasses.replace(
        settings.applied_to(source.metadata), head=spec.litert_head
    )
    litert.write_beside(
        folder,
        dataclasses.replace(source, metadata=metadata),
        {**source.settings, **settings.answer_settings()},
    )
