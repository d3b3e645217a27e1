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

from albert_tf import checks, files, quiet
from albert_tf.checkpoints import (
    discovery,
    heads,
    load,
    model_card,
    translation,
    vocabularies,
)
from albert_tf.checkpoints.checkpoint import Checkpoint, Note
from albert_tf.checkpoints.exported import EXPORTED_MODELS, LITERT, ONNX
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.devices import engine
from albert_tf.export import kept_labels, onnx_folder, version_folder
from albert_tf.export.export_config import (
    SAVED_MODEL,
    ExportConfig,
)
from albert_tf.inference import predictor
from albert_tf.serving import graph_tokenizer, model_inputs, signature
from albert_tf.serving.exported_encoder import ExportedWeights
from albert_tf.serving.signature import Signature
from albert_tf.tasks import spec as specs
from albert_tf.tasks.spec import Exported, HeadSpec, ServingSettings
from albert_tf.text.base import SYMBOLS

_KERAS_DTYPES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportSummary:
    """What an export has written; `str` gives the lines for the user."""

    path: str  # the folder of the version
    signatures: tuple[str, ...]  # none of ONNX
    num_bytes: int
    notes: tuple[Note, ...]  # on what of the checkpoint is not in the export

    def __str__(self) -> str:
        lines = [f"{note.kind:11}{note.text}" for note in self.notes]
        if self.signatures:
            lines.append(f"signatures {', '.join(self.signatures)}")
        size = f"{self.num_bytes / 1e6:.2f} MB"
        lines.append(f"written    {self.path} ({size})")
        return "\n".join(lines)


def check(config: ExportConfig, source: Checkpoint) -> None:
    """Checks, before a model is trained, that it can be exported afterwards.

    No weights are read and nothing is written; `source` has the model's config,
    and the vocabulary unless the export's config has it.
    """
    version_folder.check_writable(config.export_dir)
    if config.format == SAVED_MODEL:
        import tensorflow_text  # noqa: F401  Missing, it is an error here.
    if config.spec:
        _settings(config, config.spec, {}, source.known_config)
    vocabularies.with_vocabulary(source, config)  # raises if it cannot be


def export(config: ExportConfig) -> ExportSummary:
    """Exports a checkpoint."""
    engine.check_tensorflow("An export")
    version_folder.version_path(config.export_dir, config.export_version)
    if config.format == ONNX:
        import onnxruntime  # noqa: F401  Missing, it is an error here.
        import tf2onnx  # noqa: F401
    # 1. The checkpoint; its config and lengths, unless others are given.
    source = _read(config)
    spec = _find_spec(config, source)
    trained = spec.trained_settings(source)
    settings = _settings(config, spec, trained, source.known_config)
    # 2. Text to tokens; the model and copies of its weights.
    model, left_out = load.make_model(
        source,
        spec.head,
        dtype=_KERAS_DTYPES[config.precision],
        **spec.model_arguments(vars(settings)),
    )
    exported = Exported(
        settings=settings,
        metadata=source.metadata,
        model=model,
        weights=ExportedWeights(
            model.weights,
            precision=config.precision,
            has_pooler=source.has_pooler,
        ),
        tokenizer=graph_tokenizer.make(source.tokenizer),
    )
    # 3. The graph.
    signatures = _signatures(config, spec, exported, source)
    notes = [Note("left out", f"{n} (unused by the task)") for n in left_out]
    # Thresholds are those of all layers.
    least = source.with_depth(min(config.depths, default=None))
    notes += [*source.notes, *settings.notes(least.metadata)]

    # 4. The files, which appear all at once.
    def write(folder: str) -> None:
        if config.runtime:
            kept = _write_for_runtime(
                folder, exported, signatures, source, spec, config
            )
            notes.extend([Note("compared", kept)] if kept else [])
        else:
            _write(folder, exported, signatures, source, config.model_name)

    path = version_folder.write_version(
        config.export_dir,
        config.export_version,
        write,
        batching=version_folder.batching_parameters(
            spec.served_batch_size, joins_outputs=spec.joins_outputs
        ),
    )
    written = filter(os.path.isfile, pathlib.Path(path).rglob("*"))
    return ExportSummary(
        path=path,
        signatures=tuple(one.name for one in signatures),
        num_bytes=sum(map(os.path.getsize, written)),
        notes=tuple(notes),
    )


def _read(config: ExportConfig) -> Checkpoint:
    """Returns the checkpoint, at its largest depth, and with its vocabulary."""
    source = discovery.open(
        config.init_checkpoint, albert_config=config.albert_config_file
    )
    source = source.with_depth(max(config.depths, default=None))
    source = vocabularies.with_vocabulary(source, config)
    if config.format == ONNX:
        # transformers.js does not know that ours may be scaled.
        source = translation.in_units_of_labels(source)
    return source


def _signatures(
    config: ExportConfig, spec: HeadSpec, exported: Exported, source: Checkpoint
) -> list[Signature]:
    """Returns the signatures of all depths that the format can hold."""
    if config.format == ONNX:
        return []
    signatures = [*spec.make_signatures(exported)]
    for depth in config.depths[1:]:
        less = dataclasses.replace(
            exported,
            weights=exported.weights.at_depth(depth),
            metadata=source.with_depth(depth).metadata,
        )
        signatures += [
            dataclasses.replace(one, name=f"{one.name}_{depth}")
            for one in spec.make_signatures(less)
        ]
    takes_text = config.format == SAVED_MODEL
    return [one for one in signatures if takes_text or not one.takes_text]


def _find_spec(config: ExportConfig, source: Checkpoint) -> HeadSpec:
    """Returns the head to export, which the checkpoint has."""
    spec = config.spec or specs.head_spec_of(source.head().name)
    source.head(spec.head)  # raises if it has another
    wanted: Any = config.head
    if spec.head not in heads.OF_TASKS.get(wanted, (spec.head,)):
        raise ValueError(
            f"{source.path!r} has no head for {wanted}. It has: "
            f"{spec.head.name}."
        )
    return spec


def _settings(
    config: ExportConfig,
    spec: HeadSpec,
    trained: Mapping[str, Any],
    albert_config: AlbertConfig,
) -> ServingSettings:
    """Returns the settings of a head; `trained` are those of a fine-tuning."""
    longest = albert_config.max_position_embeddings
    defaults = {
        name: trained[name]
        for name in ("max_seq_length", *spec.serving_settings.as_trained)
        if trained.get(name) is not None
    }
    length = defaults.get("max_seq_length", spec.max_seq_length)
    defaults["max_seq_length"] = min(length, longest)
    settings = config.settings_of(spec, defaults)
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
    source: Checkpoint,
    model_name: str,
) -> None:
    """Writes a SavedModel with its vocabulary and warm-up requests."""
    served = tf.Module()
    served.weights = exported.weights.copies
    if any(one.takes_text for one in signatures):
        served.tokenizer = exported.tokenizer.resource
    with tempfile.TemporaryDirectory() as temporary:
        source.known_config.to_json_file(os.path.join(temporary, CONFIG_FILE))
        vocabularies.write(source, temporary)
        served.assets = [
            tf.saved_model.Asset(os.path.join(temporary, name))
            for name in sorted(os.listdir(temporary))
        ]
        with quiet.hidden():
            tf.saved_model.save(
                served,
                folder,
                signatures={one.name: one.function for one in signatures},
            )
    signature.check_operations(folder)
    version_folder.write_warmup(folder, signatures, model_name=model_name)


def _write_for_runtime(  # noqa: PLR0913
    folder: str,
    exported: Exported,
    signatures: Sequence[Signature],
    source: Checkpoint,
    spec: HeadSpec,
    config: ExportConfig,
) -> str | None:
    """Writes a model of ids, and what `load_predictor` needs beside it.

    Returns how many labels it keeps, if texts are given.
    """
    if config.format == LITERT and spec.litert_head:
        spec = specs.head_spec_of(spec.litert_head)
    known = dataclasses.replace(
        exported.settings.applied_to(source.metadata),
        head=spec.head.name,
        settings={**source.settings, **exported.settings.answer_settings()},
    )
    source = dataclasses.replace(source, metadata=known)
    kept, expected = None, None
    if config.compare_file:
        # Before its weights are quantized.
        model = predictor.Predictor(
            spec, source, exported.model, source.settings
        )
        expected = kept_labels.answers(config.compare_file, model)
    source.known_config.to_json_file(os.path.join(folder, CONFIG_FILE))
    known.write(folder)
    if config.format == LITERT or source.vocabulary_kind == SYMBOLS:
        vocabularies.write(source, folder)
    if config.format == LITERT:
        _write_litert(folder, exported, signatures, bool(config.quantize))
    else:
        onnx_folder.write(
            folder,
            exported.model,
            source=source,
            head=spec.head,
            is_quantized=bool(config.quantize),
        )
    if config.compare_file and expected:
        model = predictor.load_predictor(folder, head=spec)
        found = kept_labels.answers(config.compare_file, model)
        kept = kept_labels.summary(expected, found)
    if config.format == ONNX:
        model_card.write(
            folder, source, run=config.init_checkpoint, export=config, kept=kept
        )
    return kept


def _write_litert(
    folder: str,
    exported: Exported,
    signatures: Sequence[Signature],
    is_quantized: bool,
) -> None:
    """Writes the signature of ids.

    Only LiteRT's own operations are used, which have no tokenizers. In int8,
    the matrices of linear layers have a scale for each output, and their inputs
    one for each token, found when the model runs: what varies from text to
    text, and from pass to pass through the shared block, needs no calibration.
    The table of words has one scale. Everything else is float32.
    """
    [by_ids] = (one for one in signatures if one.name == signature.TOKENS)
    module = tf.Module()
    module.weights = exported.weights.copies
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [by_ids.function], module
    )
    if is_quantized:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    with quiet.hidden():
        content = converter.convert()
    [name] = EXPORTED_MODELS[LITERT]
    with files.atomic_write(os.path.join(folder, name)) as file:
        file.write(content)
