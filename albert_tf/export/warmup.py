"""Requests that TF Serving runs through a model before it takes others.

Data flow: example inputs -> [this file] -> tf_serving_warmup_requests.
Floor: export.

A record is a `tensorflow.serving.PredictionLog`. Its package is not needed
for the few fields that are set: a field of a protocol buffer is a number and
a length before its bytes.

Source: tensorflow/serving, apis/prediction_log.proto and predict.proto.
"""

import os
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

from albert_tf import files

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
