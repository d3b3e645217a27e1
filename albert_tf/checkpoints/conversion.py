"""Converts a checkpoint: read, warm-start, write, verify.

The output appears as a whole, or not at all.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from albert_tf import checks, files, folders, registry
from albert_tf.checkpoints import (
    discovery,
    heads,
    huggingface_tokenizer,
    load,
    model_card,
    translation,
    variable_names,
    vocabularies,
)
from albert_tf.checkpoints.checkpoint import Checkpoint, Note
from albert_tf.checkpoints.conversion_config import ConversionConfig
from albert_tf.checkpoints.heads import Head
from albert_tf.config import AlbertConfig

LARGEST_DIFFERENCE = 1e-5
# The settings of a warm start.
_CHANGES = {field.name for field in dataclasses.fields(AlbertConfig)} & {
    field.name for field in dataclasses.fields(ConversionConfig)
}
_POSITIONS = "bert/embeddings/position_embeddings"
_BATCH_SIZE = 2
_SEQUENCE_LENGTH = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """Facts about a conversion, to print."""

    input_format: str  # the format of the checkpoint
    num_weights: int  # arrays written, without optimizer slots
    num_parameters: int  # values in them
    left_out: tuple[str, ...]  # arrays that the format cannot store
    notes: tuple[Note, ...]  # on facts that the output, or its readers, lack
    differences: Mapping[str, float]  # of each output, if verified


def convert(config: ConversionConfig) -> Summary:
    """Converts a checkpoint."""
    output = files.check_local(config.output_path)
    if os.path.isfile(output) or (os.path.isdir(output) and os.listdir(output)):
        raise ValueError(f"--output_path={output} is not an empty folder.")
    # 1. The input, with what the settings name.
    checkpoint = _read(config)
    # 2. A model of other layers, and the model to compare its outputs with.
    target, reference = _models(config, checkpoint)
    # 3. The output, which is read back to verify it.
    with folders.atomic_folder(output) as folder:
        writer = registry.CHECKPOINT_WRITERS[config.output_format]
        left_out, notes = registry.load(writer)(folder, target)
        differences = {}
        if config.verify:
            result = discovery.open(folder)
            others = _heads_of_packages(config, checkpoint)
            differences = output_differences(reference, result, others)
            # Written so that NaN counts as a difference.
            wrong = [
                f"{name} by {difference:.3g}"
                for name, difference in differences.items()
                if not difference <= LARGEST_DIFFERENCE
            ]
            if wrong:
                raise ValueError(
                    "The outputs of the written weights differ from the "
                    f"input's: {checks.listed(wrong)} (allowed is "
                    f"{LARGEST_DIFFERENCE:g}). The output was removed."
                )
            for group in heads.unknown(result.heads, others):
                text = f"outputs of {group} (the record of the head is missing)"
                notes = [*notes, Note("unverified", text)]
            if result.format == "huggingface":
                notes = [*notes, *huggingface_tokenizer.compare(result)]
        written = {n: a for n, a in target.weights.items() if n not in left_out}
        step = {variable_names.GLOBAL_STEP: np.asarray(target.step)}
        model_card.write(
            folder,
            dataclasses.replace(target, arrays=written | step),
            run=None if _changes(config) else checkpoint.path,
            conversion=config,
        )
    return Summary(
        input_format=checkpoint.format,
        num_weights=len(written),
        num_parameters=sum(array.size for array in written.values()),
        left_out=tuple(left_out),
        notes=(*target.notes, *notes),
        differences=differences,
    )


def _heads_of_packages(
    config: ConversionConfig, checkpoint: Checkpoint
) -> list[Head]:
    """Returns the head, if it is one of another package."""
    name = config.head or checkpoint.metadata.head or ""
    is_known = not name or name in heads.HEADS
    head_spec = None if is_known else heads.in_package(name)
    return [head_spec.head] if head_spec else []


def _changes(config: ConversionConfig) -> dict[str, Any]:
    changes = {name: getattr(config, name) for name in _CHANGES}
    return {n: value for n, value in changes.items() if value is not None}


def _models(
    config: ConversionConfig, checkpoint: Checkpoint
) -> tuple[Checkpoint, Checkpoint]:
    """Returns the model to write, and a model that has the same outputs."""
    changes = _changes(config)
    target = warm_start(checkpoint, **changes) if changes else checkpoint
    reference = checkpoint
    shape = checkpoint.known_config
    if (
        config.num_hidden_layers not in (None, shape.num_hidden_layers)
        or config.attention_window not in (None, shape.attention_window)
        or (config.num_hidden_groups and shape.num_hidden_groups > 1)
    ):
        unmeasured = target.metadata.measured({})
        target = dataclasses.replace(target, metadata=unmeasured)
        reference = target
    if config.output_format in ("huggingface", "keras_hub"):
        target = translation.in_units_of_labels(target)
        reference = translation.in_units_of_labels(reference)
    return target, reference


def _read(config: ConversionConfig) -> Checkpoint:
    """Reads the input, adds what the settings name, and checks the whole."""
    checkpoint = discovery.open(
        config.input_path, albert_config=config.albert_config_file
    )
    load.check_shapes(checkpoint)
    load.check_values(checkpoint.arrays, checkpoint.path)
    notes = checkpoint.notes
    if config.verify and checkpoint.format == "huggingface":
        notes = *notes, *huggingface_tokenizer.compare(checkpoint)
        checkpoint = dataclasses.replace(checkpoint, notes=notes)
    checkpoint = vocabularies.with_vocabulary(checkpoint, config, may_lack=True)
    checkpoint = vocabularies.with_new_tokens(
        checkpoint, config.new_token_names
    )
    metadata, notes = checkpoint.metadata, checkpoint.notes
    if config.head:
        head = checkpoint.head(config.head)
        metadata = dataclasses.replace(metadata, head=head.name)
    names = heads.candidates(checkpoint.heads, metadata)
    is_sure = len(names) == 1 and names[0] in heads.HEADS
    if metadata.head is None and is_sure and not checkpoint.may_be_choices:
        metadata = dataclasses.replace(metadata, head=names[0])
    if config.null_from_cls:
        metadata = dataclasses.replace(metadata, null_from_cls=True)
    if checkpoint.vocabulary is None:
        text = "vocabulary (none is there: --spm_model_file or --vocab_file)"
        notes = *notes, Note("left out", text)
    return dataclasses.replace(checkpoint, metadata=metadata, notes=notes)


def warm_start(checkpoint: Checkpoint, **changes: Any) -> Checkpoint:
    """Returns the model with other layers, made of the same weights.

    The result has no optimizer slots and no step. `changes` are fields of the
    config. With another `num_hidden_layers`, shared weights stay as they are;
    where every layer has its own weights, each new layer copies the layer at
    the same relative depth. All `num_hidden_groups` are copies of the
    first. With another `parameter_sharing`, the layers copy shared weights.
    New positions copy the old ones, beginning with the first.

    Source: Beltagy et al. 2020, "Longformer", section 5 (positions).
    """
    old = checkpoint.known_config
    new = dataclasses.replace(old, **changes)
    copies_first = "num_hidden_groups" in changes
    sharing = old.parameter_sharing
    if sharing != "all" and new.parameter_sharing not in (sharing, "none"):
        raise ValueError(
            f"A model with parameter_sharing={sharing!r} cannot become "
            f"{new.parameter_sharing!r}, because layers with different weights "
            "would have to share them. Pass a strategy that shares less."
        )
    if copies_first and sharing == "none":
        raise ValueError(
            "--num_hidden_groups cannot be used for a model whose layers share "
            "nothing (parameter_sharing='none'). Leave it out."
        )
    arrays = checkpoint.weights
    for half in ("attention", "ffn"):
        layers = range(new.num_hidden_layers)
        if not old.is_shared(half):
            ratio = old.num_hidden_layers, new.num_hidden_layers
            origins = [layer * ratio[0] // ratio[1] for layer in layers]
        elif new.is_shared(half):
            origins = [*range(new.num_hidden_groups)]
        else:
            origins = [new.group_of_layer(layer) for layer in layers]
        if copies_first and old.is_shared(half):
            origins = [0] * len(origins)
        arrays = _copy_sets(arrays, half, origins)
    size = new.max_position_embeddings, new.embedding_size
    arrays[_POSITIONS] = np.resize(arrays[_POSITIONS], size)
    return dataclasses.replace(checkpoint, arrays=arrays, config=new)


def _copy_sets(
    arrays: dict[str, np.ndarray], half: str, origins: Sequence[int]
) -> dict[str, np.ndarray]:
    """Gives set i of one half of the layers the weights of set origins[i]."""
    copied = {}
    rows = variable_names.SUBLAYERS[half]
    for name, array in arrays.items():
        row, numbers = variable_names.find(name, "tf1") or (None, {})
        if row not in rows:
            copied[name] = array
            continue
        for target, origin in enumerate(origins):
            if origin == int(numbers["set"]):
                copied[row.tf1.format(**numbers | {"set": target})] = array
    return copied


def output_differences(
    first: Checkpoint, second: Checkpoint, others: Sequence[Head] = ()
) -> dict[str, float]:
    """Returns the largest difference of each output of two checkpoints.

    Outputs of only one checkpoint are not compared. `others` are heads that are
    not in the table of heads.
    """
    configs = (first.known_config, second.known_config)
    # The longer model can read any batch of the shorter model.
    batch = _fixed_batch(min(configs, key=lambda c: c.max_position_embeddings))
    before, after = (outputs(each, batch, others) for each in (first, second))
    return {
        name: float(np.max(np.abs(before[name] - after[name])))
        for name in before
        if name in after
    }


def outputs(
    checkpoint: Checkpoint,
    batch: Mapping[str, np.ndarray] | None = None,
    others: Sequence[Head] = (),
) -> dict[str, np.ndarray]:
    """Runs a batch through all models whose weights a checkpoint has.

    The batch is for a `PretrainingModel`; None for a fixed batch. The span
    heads may answer with any token, given an answer that starts at 0. A pooler
    that is missing has its initial weights. Returns `sequence_output`
    `[B, S, H]`, `pooled_output` `[B, H]`, and the logits of all heads.
    """
    batch = dict(batch or _fixed_batch(checkpoint.known_config))
    batch["p_mask"] = np.zeros(np.shape(batch["input_ids"]), np.float32)
    batch["start_positions"] = np.zeros(len(batch["input_ids"]), np.int32)
    result: dict[str, np.ndarray] = {}
    present = heads.present(checkpoint.heads, checkpoint.metadata)
    present += [head for head in others if head.groups & checkpoint.heads]
    for head in (heads.ENCODER, *present):
        weights = {
            name: array
            for name, array in checkpoint.weights.items()
            if variable_names.head_of(name) in {"", *head.groups}
        }
        alone = dataclasses.replace(checkpoint, arrays=weights)
        model, _ = load.make_model(alone, head)
        rows = model.inputs_of(batch)
        if model.input_rank > rows["input_ids"].ndim:
            # They are the choices of one question.
            rows = {name: array[None] for name, array in rows.items()}
        is_beam = head is heads.BEAM_SPAN
        answers = model(rows, **({"teacher_forcing": True} if is_beam else {}))
        result |= {n: ops.convert_to_numpy(x) for n, x in answers.items()}
    return result


def _fixed_batch(config: AlbertConfig) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    length = min(_SEQUENCE_LENGTH, config.max_position_embeddings)
    shape = _BATCH_SIZE, length
    mask = np.ones(shape, np.int32)
    mask[1, (length + 1) // 2 :] = 0
    types = min(2, config.type_vocab_size)
    positions = np.arange(length, dtype=np.int32)
    return {
        "input_ids": rng.integers(0, config.vocab_size, shape, np.int32),
        "input_mask": mask,
        "segment_ids": rng.integers(0, types, shape, np.int32),
        "masked_lm_positions": np.tile(positions, (_BATCH_SIZE, 1)),
    }
