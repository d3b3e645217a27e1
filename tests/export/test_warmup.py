import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework import tensor_pb2

from albert_tf.export import warmup

# The messages of TensorFlow Serving, as far as they are used:
# message -> (field, number, type, is it repeated).
_MESSAGES = {
    "PredictionLog": [("predict_log", 6, "PredictLog", False)],
    "PredictLog": [("request", 1, "PredictRequest", False)],
    "PredictRequest": [
        ("model_spec", 1, "ModelSpec", False),
        ("inputs", 2, "InputsEntry", True),
    ],
    "ModelSpec": [("name", 1, "", False), ("signature_name", 3, "", False)],
    "InputsEntry": [("key", 1, "", False), ("value", 2, "bytes", False)],
}


@pytest.fixture(scope="module")
def prediction_log():
    """The class of the message, made from its published definition."""
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="prediction_log.proto", package="test", syntax="proto3"
    )
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for name, number, kind, is_repeated in fields:
            field = message.field.add(name=name, number=number)
            field.label = (
                field_type.LABEL_REPEATED
                if is_repeated
                else field_type.LABEL_OPTIONAL
            )
            if kind in ("", "bytes"):
                field.type = (
                    field_type.TYPE_BYTES if kind else field_type.TYPE_STRING
                )
            else:
                field.type = field_type.TYPE_MESSAGE
                field.type_name = f".test.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName("test.PredictionLog")
    )


def test_a_record_is_a_prediction_log(prediction_log):
    ids = np.arange(300, dtype=np.int32).reshape(2, 150)
    texts = np.array(["a", "é"], object)

    log = prediction_log.FromString(
        warmup.prediction_log("albert", "tokens", {"ids": ids, "texts": texts})
    )

    request = log.predict_log.request
    assert request.model_spec.name == "albert"
    assert request.model_spec.signature_name == "tokens"
    found = {
        entry.key: tf.make_ndarray(
            tensor_pb2.TensorProto.FromString(entry.value)
        )
        for entry in request.inputs
    }
    np.testing.assert_array_equal(found["ids"], ids)
    assert [text.decode() for text in found["texts"]] == ["a", "é"]


def test_the_file_lies_where_tf_serving_looks(prediction_log, tmp_path):
    request = {"text_a": np.array(["x"], object)}
    warmup.write(
        str(tmp_path),
        [("serving_default", request), ("other", request)],
        model_name="m",
    )

    path = tmp_path / "assets.extra" / "tf_serving_warmup_requests"
    logs = [
        prediction_log.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(str(path))
    ]
    assert [
        log.predict_log.request.model_spec.signature_name for log in logs
    ] == ["serving_default", "other"]
