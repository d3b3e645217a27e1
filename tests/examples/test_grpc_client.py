"""The client of gRPC, against a server of grpcio; needs its package."""

import contextlib
import json
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
        score = np.zeros([len(texts), 2], np.float32)
        reply.outputs["score"].CopyFrom(tf.make_tensor_proto(score))
        reply.outputs["answer"].CopyFrom(request.inputs["text_a"])
        return reply


@contextlib.contextmanager
def _running(service):
    server = grpc.server(futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        service, server
    )
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        yield f"localhost:{port}"
    finally:
        server.stop(None).wait()


@pytest.fixture
def service():
    return _Service()


@pytest.fixture
def address(service):
    with _running(service) as address:
        yield address


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

    assert json.loads(printed) == {"answer": "é", "score": [0.0, 0.0]}


@pytest.mark.parametrize(
    ("instance", "message"),
    [('{"text_a": "bad"}', "a bad text"), ("{", "Expecting property name")],
)
def test_an_error_is_one_line(address, run_main, instance, message):
    with pytest.raises(SystemExit, match=f"^error: {message}"):
        run_main(grpc_client, f"--address={address}", instance)


def test_the_load_generator_tells_a_refusal_from_a_failure(address):
    send = load_generator.ask_grpc(address)
    requests = [{"text_a": "good"}, {"text_a": "bad"}]

    outcomes = load_generator.run(send, requests, num_in_flight=2)

    assert [o.kind for o in outcomes] == ["answer", "refusal"]
    assert outcomes[1].message == "a bad text"


def test_the_load_generator_counts_an_absent_server_as_failure():
    send = load_generator.ask_grpc("localhost:1")

    [outcome] = load_generator.run(send, [{"text_a": "x"}], num_in_flight=1)

    assert outcome.kind == "failure"
    assert "UNAVAILABLE" in outcome.message
