"""From one checkpoint to another: read, merged, warm-started, written.

The output appears whole, or not at all.

Floor: checkpoints.

Whether two checkpoints are one model: both through our layers, compared.

Floor: checkpoints.
"""

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from albert_tf import files
from albert_tf.checkpoints import (
    checkpoint,
    huggingface,
    keras_hub,
    load,
    tf1,
    variable_names,
    warm_start,
)
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.conversion_config import ConversionJob
from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.span_models import BeamSpanModel

_WRITERS: Mapping[str, Callable[[str, Checkpoint], list[str]]] = {
    "tf1": tf1.write_released,
    "keras": tf1.write_ours,
    "huggingface": huggingface.write,
    "keras_hub": keras_hub.write,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """What a conversion did.

    Args:
        input_format: As `load.recognise` names it.
        num_weights: Arrays written, without optimizer slots.
        num_parameters: Values in them.
        left_out: Names of the arrays for which the format has no place.
        differences: Largest difference by output, if asked for.
    """

    input_format: str
    num_weights: int
    num_parameters: int
    left_out: tuple[str, ...]
    differences: Mapping[str, float]


def run(job: ConversionJob) -> Summary:
    """Converts a checkpoint.

    Raises:
        FileNotFoundError: A file is missing.
        ImportError: A format needs a package that is not installed.
        ValueError: The input is damaged or at odds with its config, the
            format cannot express the model, the output exists, or
            verification found a difference.
    """
    _check_output(job.output_path)
    source = _prepared(job)
    target = _warm_started(source, job)
    with _folder_to_be(job.output_path) as folder:
        left_out = _WRITERS[job.output_format](folder, target)
        differences = {}
        if job.verify:
            # A change of the depth or of several groups is meant to be seen.
            reference = source if _keeps_outputs(source, job) else target
            differences = _verified(reference, load.read(folder))
    written = [a for n, a in target.weights.items() if n not in left_out]
    return Summary(
        input_format=load.recognise(job.input_path),
        num_weights=len(written),
        num_parameters=sum(array.size for array in written),
        left_out=tuple(left_out),
        differences=differences,
    )


def _check_output(path: str) -> None:
    name = files.check_local(path)
    if os.path.lexists(name) and (not os.path.isdir(name) or os.listdir(name)):
        raise ValueError(
            f"--output_path={name} exists and is not an empty folder. Remove "
            "it, or pass another path."
        )


def _prepared(job: ConversionJob) -> Checkpoint:
    """Returns the input with everything that it needs, checked."""
    source = load.read(job.input_path)
    source = dataclasses.replace(
        source,
        config=job.config or source.config,
        vocabulary=job.vocabulary or source.vocabulary,
        do_lower_case=source.do_lower_case
        if job.do_lower_case is None
        else job.do_lower_case,
    )
    if job.merge_from:
        other = load.read(job.merge_from)
        source = warm_start.merge(source, other)
    checkpoint.check(source, job.input_path)
    _check_vocabulary(source)
    return source


def _check_vocabulary(source: Checkpoint) -> None:
    if source.vocabulary is None:
        return
    found = checkpoint.load_tokenizer(source).vocab_size
    wanted = checkpoint.known_config(source).vocab_size
    if found > wanted:
        raise ValueError(
            f"{source.vocabulary!r} has {found} tokens, the config has "
            f"vocab_size={wanted}. Pass the vocabulary that the model was "
            "trained with."
        )


def _warm_started(source: Checkpoint, job: ConversionJob) -> Checkpoint:
    if job.num_hidden_layers:
        source = warm_start.with_layers(source, job.num_hidden_layers)
    if job.num_hidden_groups:
        source = warm_start.with_groups(source, job.num_hidden_groups)
    if job.parameter_sharing:
        source = warm_start.with_sharing(source, job.parameter_sharing)
    return source


def _keeps_outputs(source: Checkpoint, job: ConversionJob) -> bool:
    config = checkpoint.known_config(source)
    return job.num_hidden_layers in (None, config.num_hidden_layers) and (
        job.num_hidden_groups is None or config.num_hidden_groups == 1
    )


def _verified(source: Checkpoint, written: Checkpoint) -> dict[str, float]:
    found = output_differences(source, written)
    limit = LARGEST_DIFFERENCE
    # Not a number is no small one.
    wrong = {n: d for n, d in found.items() if not d <= limit}
    if wrong:
        listed = ", ".join(f"{n} by {d:.3g}" for n, d in wrong.items())
        raise ValueError(
            f"The written weights answer otherwise than the input's: {listed} "
            f"(at most {limit:g} is allowed). Nothing is kept."
        )
    return found


@contextlib.contextmanager
def _folder_to_be(path: str) -> Iterator[str]:
    """Gives a folder that takes its name when the block ends well."""
    partial = f"{os.path.normpath(path)}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    try:
        yield partial
        os.replace(partial, path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


LARGEST_DIFFERENCE = 1e-5
_BATCH_SIZE = 2
_SEQUENCE_LENGTH = 16


def output_differences(
    first: Checkpoint, second: Checkpoint
) -> dict[str, float]:
    """Returns the largest difference between two models, by output.

    Args:
        first: Any checkpoint with a config.
        second: Another; outputs that only one has are not compared.
    """
    ours, theirs = outputs(first), outputs(second)
    return {
        name: float(np.max(np.abs(ours[name] - theirs[name])))
        for name in ours
        if name in theirs
    }


def outputs(
    source: Checkpoint, batch: Mapping[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Returns what a model answers to a batch, by name of the output.

    Args:
        source: With a config; the pooler may be absent.
        batch: What `PretrainingModel` takes; None for a fixed one. Answers
            are looked for everywhere, and given that they start at 0.

    Returns:
        Float32 arrays: `sequence_output` `[B, S, H]`; with a pooler,
        `pooled_output` `[B, H]`; and the logits of the heads that there are.
    """
    config = checkpoint.known_config(source)
    has_pooler = any(
        name.startswith(variable_names.POOLER_PREFIX) for name in source.weights
    )
    weights = dict(source.weights)
    if not has_pooler:
        weights |= _empty_pooler(config)
    model = AlbertModel(config)
    load.assign(model, _part(weights, ""), "the checkpoint")
    batch = _fixed_batch(config) if batch is None else batch
    encoded = model(batch)
    found = {"sequence_output": np.asarray(encoded["sequence_output"])}
    if has_pooler:
        found["pooled_output"] = np.asarray(encoded["pooled_output"])
    if "cls/predictions" in source.heads:
        masked_lm = PretrainingModel(config, objectives=["mlm"])
        load.assign(
            masked_lm, _part(weights, "", "cls/predictions"), "the checkpoint"
        )
        logits = masked_lm(batch)["masked_lm_logits"]
        found["masked_lm_logits"] = np.asarray(logits)
    if "beam" in source.heads:
        spans = BeamSpanModel(config)
        load.assign(spans, _part(weights, "", "beam"), "the checkpoint")
        found |= _span_outputs(spans, batch)
    return found | _linear_heads(found, weights)


def _span_outputs(
    model: BeamSpanModel, batch: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    input_ids = np.asarray(batch["input_ids"])
    targets = {
        "p_mask": np.zeros(input_ids.shape, np.float32),
        "start_positions": np.zeros(len(input_ids), np.int32),
    }
    answers = model(dict(batch) | targets, teacher_forcing=True)
    return {name: np.asarray(array) for name, array in answers.items()}


def _part(
    weights: Mapping[str, np.ndarray], *heads: str
) -> dict[str, np.ndarray]:
    return {
        name: array
        for name, array in weights.items()
        if variable_names.head_of(name) in heads
    }


def _empty_pooler(config: AlbertConfig) -> dict[str, np.ndarray]:
    width = config.hidden_size
    return {
        f"{variable_names.POOLER_PREFIX}dense/kernel": np.zeros((width, width)),
        f"{variable_names.POOLER_PREFIX}dense/bias": np.zeros(width),
    }


def _linear_heads(
    found: Mapping[str, np.ndarray], weights: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    heads = {
        "sentence_order_logits": ("cls/seq_relationship/", "pooled_output"),
        "task_logits": ("", "pooled_output"),
        "span_logits": ("cls/squad/", "sequence_output"),
    }
    return {
        name: found[source] @ weights[f"{prefix}output_weights"].T
        + weights[f"{prefix}output_bias"]
        for name, (prefix, source) in heads.items()
        if f"{prefix}output_weights" in weights and source in found
    }


def _fixed_batch(config: AlbertConfig) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    length = min(_SEQUENCE_LENGTH, config.max_position_embeddings)
    shape = _BATCH_SIZE, length
    mask = np.ones(shape, np.int32)
    mask[1, (length + 1) // 2 :] = 0
    types = min(2, config.type_vocab_size)
    return {
        "input_ids": rng.integers(0, config.vocab_size, shape, np.int32),
        "input_mask": mask,
        "segment_ids": rng.integers(0, types, shape, np.int32),
        "masked_lm_positions": np.tile(
            np.arange(length, dtype="int32"), (2, 1)
        ),
    }
