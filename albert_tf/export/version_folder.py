"""The folders that TF Serving reads: one numbered folder for each version.

    D/1/saved_model.pb
    D/1/assets.extra/tf_serving_warmup_requests
    D/2/...
    D/batching_parameters.txt

TF Serving runs the warm-up requests through a model before it accepts others.
Each is a `tensorflow.serving.PredictionLog`, written without its package.

Source: tensorflow/serving, apis/prediction_log.proto and predict.proto.
"""

import errno
import os
from collections.abc import Callable, Iterable

import tensorflow as tf

from albert_tf import files
from albert_tf.data import example_codec
from albert_tf.serving.signature import Signature

BATCHING_FILE = "batching_parameters.txt"
# A request waits a little for others to share a run of the model. Without
# `num_batch_threads`, there are as many runs at a time as the server has cores.
_BATCHING = """\
batch_timeout_micros { value: 2000 }
max_enqueued_batches { value: 200 }
"""
_LARGEST_REQUEST = 1024
WARMUP_FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")
# Field numbers of the messages, from the outermost inwards.
_LOG_PREDICT_LOG = 6
_PREDICT_LOG_REQUEST = 1
_REQUEST_MODEL_SPEC, _REQUEST_INPUTS = 1, 2
_SPEC_NAME, _SPEC_SIGNATURE = 1, 3
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_field = example_codec.encode_field


def batching_parameters(batch_size: int, *, joins_outputs: bool) -> str:
    """Returns the batching parameters of TF Serving.

    A request of more rows than a run of the model takes, the `batch_size`, is
    split if TF Serving can join the outputs. It cannot join those of different
    lengths, so that clients split.
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
    name = existing = files.check_local(export_dir)
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing) or os.curdir
    if not (os.path.isdir(existing) and os.access(existing, os.W_OK)):
        raise ValueError(
            f"--export_dir={name} cannot be written: {existing!r} is not a "
            "folder that this user may write to. Pass another path."
        )
    return name


def version_path(export_dir: files.Path, version: int | None) -> str:
    """Returns the path of a new version; None is the next free number."""
    name = check_writable(export_dir)
    if version is None:
        names = os.listdir(name) if os.path.isdir(name) else []
        versions = [int(n) for n in names if n.isascii() and n.isdigit()]
        return os.path.join(name, str(1 + max(versions, default=0)))
    path = os.path.join(name, str(version))
    if os.path.lexists(path):
        raise ValueError(
            f"{path} exists already. Pass another --export_version, or none "
            "for the next free number."
        )
    return path


def write_version(
    export_dir: files.Path,
    version: int | None,
    write: Callable[[str], None],
    *,
    batching: str,
) -> str:
    """Writes a version, whole or not at all, and returns its path.

    Processes that export to the same folder get different numbers. `write`
    fills the folder that it is called with; `batching` is the content of the
    batching configuration, if there is none yet.
    """
    name = os.path.dirname(version_path(export_dir, version))
    with files.partial_folder(os.path.join(name, "version")) as folder:
        write(folder)
        batching_path = os.path.join(name, BATCHING_FILE)
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
        for one in signatures:
            spec = _field(_SPEC_NAME, model_name.encode())
            spec += _field(_SPEC_SIGNATURE, one.name.encode())
            for inputs in one.warmup:
                request = _field(_REQUEST_MODEL_SPEC, spec)
                for name, value in inputs.items():
                    tensor = tf.make_tensor_proto(value).SerializeToString()
                    entry = _field(_ENTRY_KEY, name.encode())
                    entry += _field(_ENTRY_VALUE, tensor)
                    request += _field(_REQUEST_INPUTS, entry)
                log = _field(_PREDICT_LOG_REQUEST, request)
                writer.write(_field(_LOG_PREDICT_LOG, log))
