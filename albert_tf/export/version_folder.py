"""The folders that TF Serving looks for: a number for each version.

    D/1/saved_model.pb
    D/2/saved_model.pb
    D/batching_parameters.txt

Floor: export. Plain Python.

Requests that TF Serving runs through a model before it takes others.

Data flow: example inputs -> [this file] -> tf_serving_warmup_requests.
Floor: export.

A record is a `tensorflow.serving.PredictionLog`. Its package is not needed
for the few fields that are set: a field of a protocol buffer is a number and
a length before its bytes.

Source: tensorflow/serving, apis/prediction_log.proto and predict.proto.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import tensorflow as tf

from albert_tf import files

BATCHING_FILE = "batching_parameters.txt"
# A request waits a little for others to share a run of the model. Lengths are
# dynamic, so a batch is as long as its longest text, and no longer.
_BATCHING = """\
max_batch_size { value: 32 }
batch_timeout_micros { value: 2000 }
max_enqueued_batches { value: 100 }
num_batch_threads { value: 2 }
"""


def next_version(export_dir: files.Path) -> int:
    """Returns the number after the highest version in a folder; 1 without.

    Raises:
        ValueError: It is not a folder.
    """
    name = _checked(export_dir)
    found = os.listdir(name) if os.path.isdir(name) else []
    return 1 + max((int(n) for n in found if _is_version(n)), default=0)


@contextlib.contextmanager
def new_version(export_dir: files.Path, version: int) -> Iterator[str]:
    """Gives a folder that becomes `D/<version>` when the block ends well.

    TF Serving sees it when it is whole. If the block fails, nothing stays.

    Raises:
        ValueError: The version exists; or `export_dir` is not a folder.
    """
    name = _checked(export_dir)
    path = os.path.join(name, str(version))
    if os.path.lexists(path):
        raise ValueError(
            f"{path} exists already, and may be served now. Pass another "
            f"version than {version}, or none for the next one."
        )
    existed = os.path.isdir(name)
    # Not a number, so that nobody serves it.
    partial = f"{path}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    try:
        yield partial
        _write_batching(name)
        os.replace(partial, path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        if not existed:
            with contextlib.suppress(OSError):
                os.rmdir(name)
        raise


def _checked(export_dir: files.Path) -> str:
    name = files.check_local(export_dir)
    if os.path.lexists(name) and not os.path.isdir(name):
        raise ValueError(
            f"--export_dir={name} is there, and not a folder. Pass another "
            "path."
        )
    return name


def _write_batching(export_dir: str) -> None:
    path = os.path.join(export_dir, BATCHING_FILE)
    if not os.path.exists(path):
        files.write_text(path, _BATCHING)


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdigit()


FOLDER = "assets.extra"
FILE = "tf_serving_warmup_requests"

# Numbers of the fields of the messages, from the outermost.
_LOG_PREDICT_LOG = 6
_PREDICT_LOG_REQUEST = 1
_REQUEST_MODEL_SPEC, _REQUEST_INPUTS = 1, 2
_SPEC_NAME, _SPEC_SIGNATURE = 1, 3
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_LENGTH_DELIMITED = 2


def write(
    folder: str,
    requests: Iterable[tuple[str, Mapping[str, np.ndarray]]],
    *,
    model_name: str,
) -> None:
    """Writes the file of requests where TF Serving looks for it.

    Args:
        folder: Of the SavedModel.
        requests: Names of signatures, and their inputs by name.
        model_name: The name that the model is served by.
    """
    path = os.path.join(files.check_local(folder), FOLDER, FILE)
    os.makedirs(os.path.dirname(path))
    with tf.io.TFRecordWriter(path) as writer:
        for signature, inputs in requests:
            writer.write(prediction_log(model_name, signature, inputs))


def prediction_log(
    model_name: str, signature: str, inputs: Mapping[str, np.ndarray]
) -> bytes:
    """Returns the bytes of the record of one request."""
    spec = _field(_SPEC_NAME, model_name.encode())
    spec += _field(_SPEC_SIGNATURE, signature.encode())
    request = _field(_REQUEST_MODEL_SPEC, spec)
    for name, value in inputs.items():
        entry = _field(_ENTRY_KEY, name.encode())
        tensor = tf.make_tensor_proto(value).SerializeToString()
        entry += _field(_ENTRY_VALUE, tensor)
        request += _field(_REQUEST_INPUTS, entry)
    return _field(_LOG_PREDICT_LOG, _field(_PREDICT_LOG_REQUEST, request))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED) + (
        _varint(len(content)) + content
    )


def _varint(value: int) -> bytes:
    """Returns seven bits a byte, the lowest first; the top bit: goes on."""
    encoded = bytearray()
    while value >> 7:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
