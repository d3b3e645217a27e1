"""Writes the folders that TF Serving reads: a numbered one for each version.

    D/1/saved_model.pb
    D/1/assets.extra/tf_serving_warmup_requests
    D/2/...
    D/batching_parameters.txt

TF Serving runs the warm-up requests through a model before it accepts others.
Each is a `tensorflow.serving.PredictionLog`. This file encodes it, so that the
package `tensorflow-serving-api` is not needed.

Source: tensorflow/serving, apis/prediction_log.proto and predict.proto.
"""

import errno
import os
from collections.abc import Callable, Iterable

import tensorflow as tf

from albert_tf import files, folders
from albert_tf.data import example_codec
from albert_tf.serving.signature import Signature

BATCHING_FILE = "batching_parameters.txt"
# Requests that come within 2 ms share a run of the model. Without
# `num_batch_threads`, as many runs are computed at a time as there are cores.
_BATCHING = """\
batch_timeout_micros { value: 2000 }
max_enqueued_batches { value: 200 }
"""
_LARGEST_REQUEST = 1024
WARMUP_FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")
# Field numbers of the messages; each contains the next.
_LOG_PREDICT_LOG = 6
_PREDICT_LOG_REQUEST = 1
_REQUEST_MODEL_SPEC, _REQUEST_INPUTS = 1, 2
_SPEC_NAME, _SPEC_SIGNATURE = 1, 3
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_field = example_codec.encode_field


def batching_parameters(batch_size: int, *, joins_outputs: bool) -> str:
    """Returns the batching parameters of TF Serving.

    TF Serving splits a request of more than `batch_size` rows if it can join
    the outputs. It cannot join outputs of different lengths: then clients have
    to split their requests.
    """
    if not joins_outputs:
        return f"max_batch_size {{ value: {batch_size} }}\n{_BATCHING}"
    return (
        f"max_batch_size {{ value: {_LARGEST_REQUEST} }}\n"
        "enable_large_batch_splitting { value: true }\n"
        f"max_execution_batch_size {{ value: {batch_size} }}\n{_BATCHING}"
    )


def check_writable(export_dir: files.Path) -> str:
    """Checks that versions can be written to a folder; returns its path."""
    path = existing = files.check_local(export_dir)
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing) or os.curdir
    if not (os.path.isdir(existing) and os.access(existing, os.W_OK)):
        raise ValueError(
            f"--export_dir={path} cannot be written: {existing!r} is not a "
            "folder that this user may write to. Pass another path."
        )
    return path


def version_path(export_dir: files.Path, version: int | None) -> str:
    """Returns the path of a new version; None is the next free number."""
    folder = check_writable(export_dir)
    if version is None:
        names = os.listdir(folder) if os.path.isdir(folder) else []
        versions = [int(n) for n in names if n.isascii() and n.isdigit()]
        return os.path.join(folder, str(1 + max(versions, default=0)))
    path = os.path.join(folder, str(version))
    if os.path.lexists(path):
        raise ValueError(
            f"{path} exists already. Pass another --export_version, or leave "
            "it out to use the next free number."
        )
    return path


def write_version(
    export_dir: files.Path,
    version: int | None,
    write: Callable[[str], None],
    *,
    batching: str,
) -> str:
    """Writes a complete version, or none, and returns its path.

    Processes that export to the same folder get different numbers.

    Args:
        export_dir: The folder of all versions.
        version: Number of the version; None for the next free number.
        write: Function that fills the folder whose path it gets.
        batching: Content of the batching configuration, if there is no file.
    """
    parent = os.path.dirname(version_path(export_dir, version))
    with folders.partial_folder(os.path.join(parent, "version")) as folder:
        write(folder)
        batching_path = os.path.join(parent, BATCHING_FILE)
        if not os.path.exists(batching_path):
            files.write_text(batching_path, batching)
        while True:
            path = version_path(export_dir, version)
            try:
                os.rename(folder, path)
                return path
            except OSError as error:
                # Another process has taken the number.
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise


def write_warmup(
    folder: str, signatures: Iterable[Signature], *, model_name: str
) -> None:
    """Writes the warm-up requests into the folder of a SavedModel."""
    path = os.path.join(folder, WARMUP_FILE)
    os.makedirs(os.path.dirname(path))
    with tf.io.TFRecordWriter(path) as writer:
        for signature in signatures:
            model_spec = _field(_SPEC_NAME, model_name.encode())
            model_spec += _field(_SPEC_SIGNATURE, signature.name.encode())
            for inputs in signature.warmup:
                request = _field(_REQUEST_MODEL_SPEC, model_spec)
                for name, array in inputs.items():
                    tensor = tf.make_tensor_proto(array).SerializeToString()
                    entry = _field(_ENTRY_KEY, name.encode())
                    entry += _field(_ENTRY_VALUE, tensor)
                    request += _field(_REQUEST_INPUTS, entry)
                log = _field(_PREDICT_LOG_REQUEST, request)
                writer.write(_field(_LOG_PREDICT_LOG, log))
