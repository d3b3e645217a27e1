"""From one checkpoint to another: read, merged, warm-started, written.

The output appears whole, or not at all.

Floor: checkpoints.
"""

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Callable, Iterator, Mapping

from albert_tf import files
from albert_tf.checkpoints import (
    checkpoint,
    huggingface,
    keras_hub,
    load,
    tf1_folder,
    verification,
    warm_start,
)
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.conversion_job import ConversionJob

_WRITERS: Mapping[str, Callable[[str, Checkpoint], list[str]]] = {
    "tf1": tf1_folder.write_released,
    "keras": tf1_folder.write_ours,
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
            f"{source.vocabulary!r} has {found} pieces, the config has "
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
    found = verification.differences(source, written)
    limit = verification.LARGEST_DIFFERENCE
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
