import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework import tensor_pb2

from albert_tf.export import version_folder


def test_versions_are_counted_from_one(tmp_path):
    assert version_folder.next_version(tmp_path / "none") == 1
    for name in ("1", "12", "3", "x", "99.partial"):
        (tmp_path / name).mkdir()

    assert version_folder.next_version(tmp_path) == 13


def test_a_version_appears_whole_beside_a_batching_configuration(tmp_path):
    with version_folder.new_version(tmp_path / "served", 2) as folder:
        pathlib.Path(folder, "file").write_text("x")
        assert not (tmp_path / "served" / "2").exists()

    assert sorted(os.listdir(tmp_path / "served")) == [
        "2",
        "batching_parameters.txt",
    ]
    assert os.listdir(tmp_path / "served" / "2") == ["file"]


def test_a_batching_configuration_that_was_changed_is_kept(tmp_path):
    path = tmp_path / version_folder.BATCHING_FILE
    path.write_text("mine")
    with version_folder.new_version(tmp_path, 1):
        pass

    assert path.read_text() == "mine"


def test_after_a_failure_nothing_stays(tmp_path):
    with (
        pytest.raises(RuntimeError, match="half way"),
        version_folder.new_version(tmp_path / "served", 1),
    ):
        raise RuntimeError("half way")

    assert os.listdir(tmp_path) == []


def test_a_version_is_not_written_over(tmp_path):
    (tmp_path / "4").mkdir()

    with (
        pytest.raises(ValueError, match="4 exists already.*Pass another"),
        version_folder.new_version(tmp_path, 4),
    ):
        pass


def test_what_is_not_a_folder_gets_no_versions(tmp_path):
    path = tmp_path / "file"
    path.write_text("mine")

    for make in (
        lambda: version_folder.next_version(path),
        lambda: version_folder.new_version(path, 1).__enter__(),
    ):
        with pytest.raises(ValueError, match="file is there, and not a folder"):
            make()
    assert path.read_text() == "mine"


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
        version_folder.prediction_log(
            "albert", "tokens", {"ids": ids, "texts": texts}
        )
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
    version_folder.write(
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
