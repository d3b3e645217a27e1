"""The signature `tokens` as a LiteRT model, for phones and small computers.

Data flow: signature -> [this file] -> model.tflite.
Floor: export.

A checkpoint becomes a SavedModel that takes raw text.

Data flow: checkpoint, vocabulary -> signatures -> [this file] -> D/<version>.
Floor: export.
"""

import contextlib
import dataclasses
import logging
import os
import tempfile
from collections.abc import Iterator

import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import checkpoint, load
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.export import (
    allowed_operations,
    exported_tasks,
    exported_text,
    pair_packing,
    signature,
    tokens,
    version_folder,
)
from albert_tf.export.export_config import ExportJob
from albert_tf.export.exported_encoder import ServedWeights
from albert_tf.export.signature import Signature
from albert_tf.export.tokens import TextGraph

FILE = "model.tflite"


def convert(signature: Signature, module: tf.Module) -> bytes:
    """Returns the bytes of a `.tflite` file.

    Its inputs and outputs are those of the signature, by name; batch and
    length are dynamic. It has LiteRT's own operations only.

    Args:
        signature: A traced function of ids.
        module: Holds the weights.

    Raises:
        ValueError: An operation has no counterpart in LiteRT.
    """
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [signature.function], module
    )
    try:
        return bytes(converter.convert())
    except Exception as error:
        # Its messages hold the whole graph; the last line is the reason.
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"Signature {signature.name!r} cannot be converted to LiteRT: "
            f"{reason}. Leave --tflite out."
        ) from error


CONFIG_FILE = "albert_config.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """What an export wrote.

    Args:
        path: Folder of the version.
        signatures: Names of what the model can be asked.
        num_bytes: Size of all files.
        left_out: Arrays of the checkpoint that the task has no use for.
    """

    path: str
    signatures: tuple[str, ...]
    num_bytes: int
    left_out: tuple[str, ...]


def run(job: ExportJob) -> Summary:
    """Exports a checkpoint.

    Raises:
        FileNotFoundError: A file is missing.
        ImportError: The checkpoint's format needs a package that is not
            installed.
        ValueError: The checkpoint is damaged or at odds with its config, the
            vocabulary is not the model's, there is no head for the task,
            settings are impossible, the version exists, or the graph has an
            operation that TF Serving may not know.
    """
    source = load.read(job.init_checkpoint)
    config = job.config or checkpoint.known_config(source)
    job = _completed(job, source, config)
    version = job.version or version_folder.next_version(job.export_dir)
    texts = exported_text.load_text_graph(
        spm_model_file=job.spm_model_file,
        vocab_file=job.vocab_file,
        do_lower_case=bool(job.do_lower_case),
    )
    _check_vocabulary(texts, job, source, config)
    model = exported_tasks.make_model(job, source, config)
    left_out = load.load_checkpoint(model, job.init_checkpoint)
    weights = ServedWeights(model.weights, precision=job.precision)
    signatures = exported_tasks.make_signatures(job, model, weights, texts)
    for found in signatures:
        allowed_operations.check(found.function, found.name)
    with version_folder.new_version(job.export_dir, version) as folder:
        _write(folder, weights, signatures, job, config)
    path = os.path.join(job.export_dir, str(version))
    return Summary(
        path=path,
        signatures=tuple(found.name for found in signatures),
        num_bytes=_size(path),
        left_out=tuple(left_out),
    )


def _completed(
    job: ExportJob, source: Checkpoint, config: AlbertConfig
) -> ExportJob:
    """Fills in what lies beside the checkpoint, and checks lengths."""
    longest = config.max_position_embeddings
    length = job.max_seq_length
    if length is None:
        length = min(job.known_seq_length, longest)
    if not pair_packing.MIN_SEQ_LENGTH <= length <= longest:
        raise ValueError(
            f"`max_seq_length` must be from {pair_packing.MIN_SEQ_LENGTH} to "
            f"the model's max_position_embeddings={longest}. Received: "
            f"{length}."
        )
    lower = job.do_lower_case
    job = dataclasses.replace(
        job,
        max_seq_length=length,
        do_lower_case=source.do_lower_case if lower is None else lower,
    )
    beside = source.vocabulary
    if job.spm_model_file or job.vocab_file or beside is None:
        return job
    is_text = beside.endswith(".txt")
    return dataclasses.replace(
        job,
        spm_model_file=None if is_text else beside,
        vocab_file=beside if is_text else None,
    )


def _check_vocabulary(
    texts: TextGraph, job: ExportJob, source: Checkpoint, config: AlbertConfig
) -> None:
    if texts.vocab_size > config.vocab_size:
        raise ValueError(
            f"The vocabulary has {texts.vocab_size} tokens, the config has "
            f"vocab_size={config.vocab_size}. Pass the vocabulary that the "
            "model was trained with."
        )
    beside = source.vocabulary
    if beside is None or beside in (job.spm_model_file, job.vocab_file):
        return
    if tokens.tokens_of(checkpoint.load_tokenizer(source)) != texts.tokens:
        raise ValueError(
            f"The vocabulary is not the model's, which lies beside it: "
            f"{beside}. Leave out --spm_model_file and --vocab_file."
        )


def _write(
    folder: str,
    weights: ServedWeights,
    signatures: list[Signature],
    job: ExportJob,
    config: AlbertConfig,
) -> None:
    with _assets(job, config) as assets:
        module = tf.Module()
        module.weights = weights.copies
        module.assets = [tf.saved_model.Asset(path) for path in assets]
        functions = {found.name: found.function for found in signatures}
        with _without_progress_messages():
            tf.saved_model.save(module, folder, signatures=functions)
            if job.tflite:
                _write_litert(folder, signatures, module)
    requests = [
        (found.name, inputs) for found in signatures for inputs in found.warmup
    ]
    version_folder.write(folder, requests, model_name=job.model_name)


def _write_litert(
    folder: str, signatures: list[Signature], module: tf.Module
) -> None:
    of_ids = next(one for one in signatures if one.name == signature.TOKENS)
    with files.atomic_write(os.path.join(folder, FILE)) as file:
        file.write(convert(of_ids, module))


@contextlib.contextmanager
def _assets(job: ExportJob, config: AlbertConfig) -> Iterator[list[str]]:
    """Gives the paths of the config and of the vocabulary."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, CONFIG_FILE)
        config.to_json_file(path)
        vocabulary = job.spm_model_file or job.vocab_file or ""
        yield [path, vocabulary]


@contextlib.contextmanager
def _without_progress_messages() -> Iterator[None]:
    """Holds back what TensorFlow says of every file that it writes."""
    disabled = logging.root.manager.disable
    logging.disable(max(disabled, logging.INFO))
    try:
        yield
    finally:
        logging.disable(disabled)


def _size(folder: str) -> int:
    return sum(
        os.path.getsize(os.path.join(parent, name))
        for parent, _, names in os.walk(folder)
        for name in names
    )
