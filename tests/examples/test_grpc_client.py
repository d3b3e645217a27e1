"""The client of gRPC, against a server of grpcio; needs its package."""

import importlib
import json
import sys
from concurrent import futures

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip(
    "tensorflow_serving",
    reason="needs the package of the gRPC client: tensorflow-serving-api",
)

import grpc
import grpc_client
import load_generator
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

UNLIMITED = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
]
INPUTS = {"text_a": [b"\xff a\0", "é".encode()], "text_b": ["", "b"]}


class _Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Gives texts back, and refuses those with `bad` in them."""

    def __init__(self):
        self.specs = []

    def Predict(self, request, context):  # noqa: N802
        self.specs.append(request.model_spec)
        texts = tf.make_ndarray(request.inputs["text_a"])
        if any(b"bad" in text for text in texts.flat):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a bad text")
        reply = predict_pb2.PredictResponse()
        # As long as the longest text of the request.
        longest = max((len(text) for text in texts.flat), default=0)
        vectors = np.ones([len(texts), longest], np.float32)
        reply.outputs["vectors"].CopyFrom(tf.make_tensor_proto(vectors))
        if any(b"empty" in text for text in texts.flat):
            reply.outputs["error"].CopyFrom(request.inputs["text_a"])
        score = np.zeros([len(texts), 2], np.float32)
        reply.outputs["score"].CopyFrom(tf.make_tensor_proto(score))
        reply.outputs["answer"].CopyFrom(request.inputs["text_a"])
        return reply


@pytest.fixture
def service():
    return _Service()


@pytest.fixture
def address(service):
    server = grpc.server(futures.ThreadPoolExecutor(2), options=UNLIMITED)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        service, server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_a_batch_goes_and_comes_back(service, address):
    outputs = grpc_client.predict(
        grpc_client.connect(address), INPUTS, signature_name="other"
    )

    assert outputs["answer"].tolist() == INPUTS["text_a"]
    np.testing.assert_array_equal(outputs["score"], np.zeros([2, 2]))
    [spec] = service.specs
    assert (spec.name, spec.signature_name) == ("albert", "other")


def test_the_command_prints_the_outputs(address, run_main):
    printed = run_main(
        grpc_client, f"--address={address}", '{"text_a": "é", "text_b": ""}'
    )

    assert json.loads(printed) == {
        "answer": "é",
        "score": [0.0, 0.0],
        "vectors": [1.0, 1.0],
    }


def test_a_large_batch_is_several_requests_and_one_reply(service, address):
    texts = [b"a", b"bb", b"c", b"dddd", b"e"]

    outputs = grpc_client.predict(
        grpc_client.connect(address), {"text_a": texts}, max_batch_size=2
    )

    assert len(service.specs) == 3
    assert outputs["answer"].tolist() == texts
    np.testing.assert_array_equal(outputs["score"], np.zeros([5, 2]))
    np.testing.assert_array_equal(
        outputs["vectors"],
        # Of three requests, the longest texts have 2, 4 and 1 bytes.
        np.arange(4) < np.array([2, 2, 4, 4, 1])[:, None],
    )


@pytest.mark.parametrize(
    ("instance", "message"),
    [
        ('{"text_a": "bad"}', "a bad text"),
        ('{"text_a": "empty"}', "empty"),
        ("{", "the instance is not JSON: Expecting property name"),
        ('["a", "b"]', r'the instance must be a JSON object .*\["a", "b"\]$'),
        ('{"text_a": null}', "the input 'text_a' must be a text or a number"),
        ('{"a": [["x"], []]}', "the input 'a' must be .* lists of one length"),
    ],
)
def test_an_error_is_one_line(address, run_main, instance, message):
    with pytest.raises(SystemExit, match=f"^error: {message}"):
        run_main(grpc_client, f"--address={address}", instance)


@pytest.mark.parametrize(
    ("client", "arguments"),
    [
        (grpc_client, ["--address=localhost:1", "{}"]),
        (load_generator, ["--grpc=localhost:1"]),
    ],
)
def test_no_server_is_one_line(run_main, client, arguments):
    with pytest.raises(SystemExit, match=r"^error: \S.* refused.*$"):
        run_main(client, *arguments)


def test_the_package_that_is_missing_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_serving.apis", None)
    monkeypatch.delitem(sys.modules, "grpc_client")

    with pytest.raises(
        SystemExit, match="^error: .* Run: pip install tensorflow-serving-api$"
    ):
        importlib.import_module("grpc_client")


def test_a_message_may_have_more_than_4_mebibytes(address):
    texts = ["x" * 2**20] * 5

    outputs = grpc_client.predict(
        grpc_client.connect(address), {"text_a": texts}
    )

    assert [text.decode() for text in outputs["answer"]] == texts


def test_the_load_generator_tells_a_refusal_from_a_failure(address):
    send = load_generator.ask_grpc(address)
    requests = [{"text_a": "good"}, {"text_a": "bad"}]

    outcomes = load_generator.run(send, requests, num_in_flight=2)

    assert [o.kind for o in outcomes] == ["answer", "refusal"]
    assert outcomes[1].message == "a bad text"
