"""Exports a checkpoint: a SavedModel that takes raw text, or LiteRT, or ONNX.

Data flow: checkpoint, vocabulary -> signatures -> [this file] -> D/<version>.
"""

import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf import checks, quiet, registry
from albert_tf.checkpoints import (
    discovery,
    heads,
    load,
    model_card,
    translation,
    vocabularies,
)
from albert_tf.checkpoints.checkpoint import Checkpoint, Note
from albert_tf.checkpoints.exported import LITERT, ONNX
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.devices import strategies
from albert_tf.export import kept_labels, version_folder
from albert_tf.export.export_config import SAVED_MODEL, ExportConfig
from albert_tf.inference import predictor
from albert_tf.serving import graph_tokenizer, model_inputs, signature
from albert_tf.serving.exported_encoder import ExportedWeights
from albert_tf.serving.signature import Signature
from albert_tf.tasks import spec as specs
from albert_tf.tasks.spec import Exported, HeadSpec, ServingSettings

_KERAS_DTYPES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportSummary:
    """Describes an export; `str` makes the lines that the command prints."""

    path: str  # the folder of the version
    signatures: tuple[str, ...]  # empty for ONNX
    num_bytes: int
    notes: tuple[Note, ...]  # such as arrays that the export leaves out

    def __str__(self) -> str:
        lines = [f"{note.kind:11}{note.text}" for note in self.notes]
        if self.signatures:
            lines.append(f"signatures {', '.join(self.signatures)}")
        size = f"{self.num_bytes / 1e6:.2f} MB"
        lines.append(f"written    {self.path} ({size})")
        return "\n".join(lines)


def check(config: ExportConfig, checkpoint: Checkpoint) -> None:
    """Checks, before a model is trained, that it can be exported afterwards.

    No weights are read and nothing is written. `checkpoint` has the model's
    config, and the vocabulary unless the export's config has it.
    """
    version_folder.check_writable(config.export_dir)
    if config.format == SAVED_MODEL:
        import tensorflow_text  # noqa: F401  Raises if it is not installed.
    if config.head_spec:
        _settings(config, config.head_spec, {}, checkpoint.known_config)
    vocabularies.with_vocabulary(checkpoint, config)  # Raises if it has none.


def export(config: ExportConfig) -> ExportSummary:
    """Exports a checkpoint."""
    strategies.check_tensorflow("An export")
    version_folder.version_path(config.export_dir, config.export_version)
    if config.format == ONNX:
        import onnxruntime  # noqa: F401  Raises if it is not installed.
        import tf2onnx  # noqa: F401
    # 1. The checkpoint, its head, and the settings of both.
    checkpoint = _read(config)
    head_spec = _find_spec(config, checkpoint)
    trained = head_spec.trained_settings(checkpoint)
    settings = _settings(config, head_spec, trained, checkpoint.known_config)
    # 2. The model, copies of its weights, and the tokenizer's graph.
    model, left_out = load.make_model(
        checkpoint,
        head_spec.head,
        dtype=_KERAS_DTYPES[config.precision],
        **head_spec.model_arguments(vars(settings)),
    )
    exported = Exported(
        settings=settings,
        metadata=checkpoint.metadata,
        model=model,
        weights=ExportedWeights(
            model.weights,
            precision=config.precision,
            has_pooler=checkpoint.has_pooler,
        ),
        tokenizer=graph_tokenizer.make(checkpoint.tokenizer),
    )
    # 3. The graph.
    signatures = _signatures(config, head_spec, exported, checkpoint)
    notes = [Note("left out", f"{n} (unused by the task)") for n in left_out]
    # Thresholds were chosen for all layers: fewer layers do not have them.
    shallow = checkpoint.with_depth(min(config.depths, default=None))
    notes += [*checkpoint.notes, *settings.notes(shallow.metadata)]

    # 4. The files, which appear all at once.
    def write(folder: str) -> None:
        if config.runtime:
            comparison = _write_for_runtime(
                folder, exported, signatures, checkpoint, head_spec, config
            )
            notes.extend([Note("compared", comparison)] if comparison else [])
        else:
            _write(folder, exported, signatures, checkpoint, config.model_name)

    path = version_folder.write_version(
        config.export_dir,
        config.export_version,
        write,
        batching=version_folder.batching_parameters(
            head_spec.served_batch_size, joins_outputs=head_spec.joins_outputs
        ),
    )
    written = filter(os.path.isfile, pathlib.Path(path).rglob("*"))
    return ExportSummary(
        path=path,
        signatures=tuple(each.name for each in signatures),
        num_bytes=sum(map(os.path.getsize, written)),
        notes=tuple(notes),
    )


def _read(config: ExportConfig) -> Checkpoint:
    """Returns the checkpoint, at its largest depth, and with its vocabulary."""
    checkpoint = discovery.open(
        config.init_checkpoint, albert_config=config.albert_config_file
    )
    checkpoint = checkpoint.with_depth(max(config.depths, default=None))
    checkpoint = vocabularies.with_vocabulary(checkpoint, config)
    if config.format == ONNX:
        # transformers.js cannot scale the outputs of a regression.
        checkpoint = translation.in_units_of_labels(checkpoint)
    return checkpoint


def _signatures(
    config: ExportConfig,
    head_spec: HeadSpec,
    exported: Exported,
    checkpoint: Checkpoint,
) -> list[Signature]:
    """Returns the signatures of all depths that the format can hold."""
    if config.format == ONNX:
        return []
    signatures = [*head_spec.make_signatures(exported)]
    for depth in config.depths[1:]:
        shallow = dataclasses.replace(
            exported,
            weights=exported.weights.at_depth(depth),
            metadata=checkpoint.with_depth(depth).metadata,
        )
        signatures += [
            dataclasses.replace(each, name=f"{each.name}_{depth}")
            for each in head_spec.make_signatures(shallow)
        ]
    takes_text = config.format == SAVED_MODEL
    return [each for each in signatures if takes_text or not each.takes_text]


def _find_spec(config: ExportConfig, checkpoint: Checkpoint) -> HeadSpec:
    """Returns the head to export, which the checkpoint has."""
    head_spec = config.head_spec or specs.head_spec_of(checkpoint.head().name)
    checkpoint.head(head_spec.head)  # Raises if it has another one.
    task: Any = config.head
    if head_spec.head not in heads.OF_TASKS.get(task, (head_spec.head,)):
        raise ValueError(
            f"{checkpoint.path!r} has no head for {task}. It has: "
            f"{head_spec.head.name}."
        )
    return head_spec


def _settings(
    config: ExportConfig,
    head_spec: HeadSpec,
    trained: Mapping[str, Any],
    albert_config: AlbertConfig,
) -> ServingSettings:
    """Returns the settings of a head; by default, as it was `trained`."""
    longest = albert_config.max_position_embeddings
    defaults = {
        name: trained[name]
        for name in ("max_seq_length", *head_spec.serving_settings.as_trained)
        if trained.get(name) is not None
    }
    length = defaults.get("max_seq_length", head_spec.max_seq_length)
    defaults["max_seq_length"] = min(length, longest)
    settings = config.settings_of(head_spec, defaults)
    checks.check_integer(
        "max_seq_length",
        settings.max_seq_length,
        at_least=model_inputs.MIN_SEQ_LENGTH,
        at_most=longest,
    )
    return settings


def _write(
    folder: str,
    exported: Exported,
    signatures: Sequence[Signature],
    checkpoint: Checkpoint,
    model_name: str,
) -> None:
    """Writes a SavedModel with its vocabulary and warm-up requests."""
    served = tf.Module()
    served.weights = exported.weights.copies
    if any(each.takes_text for each in signatures):
        served.tokenizer = exported.tokenizer.resource
    with tempfile.TemporaryDirectory() as assets:
        checkpoint.known_config.to_json_file(os.path.join(assets, CONFIG_FILE))
        vocabularies.write(checkpoint, assets)
        served.assets = [
            tf.saved_model.Asset(os.path.join(assets, name))
            for name in sorted(os.listdir(assets))
        ]
        with quiet.hidden():
            tf.saved_model.save(
                served,
                folder,
                signatures={each.name: each.function for each in signatures},
            )
    signature.check_operations(folder)
    version_folder.write_warmup(folder, signatures, model_name=model_name)


def _write_for_runtime(  # noqa: PLR0913
    folder: str,
    exported: Exported,
    signatures: Sequence[Signature],
    checkpoint: Checkpoint,
    head_spec: HeadSpec,
    config: ExportConfig,
) -> str | None:
    """Writes a model of ids, and the files that `load_predictor` needs.

    Returns the result of the comparison, if texts for it are given.
    """
    if config.format == LITERT and head_spec.litert_head:
        head_spec = specs.head_spec_of(head_spec.litert_head)
    metadata = dataclasses.replace(
        exported.settings.applied_to(checkpoint.metadata),
        head=head_spec.head.name,
        settings={**checkpoint.settings, **exported.settings.answer_settings()},
    )
    checkpoint = dataclasses.replace(checkpoint, metadata=metadata)
    comparison, expected = None, None
    if config.compare_file:
        # Before its weights are quantized.
        original = predictor.Predictor(
            head_spec, checkpoint, exported.model, checkpoint.settings
        )
        expected = kept_labels.answers(config.compare_file, original)
    checkpoint.known_config.to_json_file(os.path.join(folder, CONFIG_FILE))
    metadata.write(folder)
    write = registry.load(registry.EXPORTS[config.format])
    write(
        folder,
        exported,
        signatures,
        checkpoint=checkpoint,
        head=head_spec.head,
        is_quantized=bool(config.quantize),
    )
    # A runtime that lacks an operation says so here.
    written = predictor.load_predictor(folder, head=head_spec)
    if config.compare_file and expected:
        answers = kept_labels.answers(config.compare_file, written)
        comparison = kept_labels.summary(expected, answers)
    if config.format == ONNX:
        model_card.write(
            folder,
            checkpoint,
            run=config.init_checkpoint,
            export=config,
            kept=comparison,
        )
    return comparison
