"""The client of gRPC, against a server of grpcio; needs its package."""

import contextlib
import json
import pathlib
import subprocess
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

from albert_tf.export import saved_model
from albert_tf.export.export_config import ExportConfig

CHECKPOINT = (
    pathlib.Path(__file__).resolve().parents[1] / "parity" / "model_base"
)
UNLIMITED = [("grpc.max_send_message_length", -1)]
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


class _SavedModelService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers with a SavedModel, as TF Serving does."""

    def __init__(self, path):
        self.model = tf.saved_model.load(path)

    def Predict(self, request, context):  # noqa: N802
        name = request.model_spec.signature_name
        if name not in self.model.signatures:
            context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, f"no signature {name}"
            )
        inputs = {
            name: tf.constant(tf.make_ndarray(value))
            for name, value in request.inputs.items()
        }
        try:
            outputs = self.model.signatures[name](**inputs)
        except (tf.errors.InvalidArgumentError, TypeError, ValueError) as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        reply = predict_pb2.PredictResponse()
        for name, value in outputs.items():
            reply.outputs[name].CopyFrom(tf.make_tensor_proto(value))
        return reply


@contextlib.contextmanager
def _running(service):
    server = grpc.server(futures.ThreadPoolExecutor(2), options=UNLIMITED)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        service, server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@pytest.fixture(scope="module")
def export(tiny_spm_model, tmp_path_factory):
    """An encoder that takes raw text, and the address that serves it."""
    config = ExportConfig(
        init_checkpoint=str(CHECKPOINT),
        export_dir=str(tmp_path_factory.mktemp("served")),
        spm_model_file=str(tiny_spm_model),
    )
    service = _SavedModelService(saved_model.export(config).path)
    with _running(service) as address:
        yield service.model, address


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
    [
        ('{"text_a": "bad"}', "a bad text"),
        ("{", "the instance is not JSON: Expecting property name"),
        ("[" * 100_000, "the instance is not JSON: maximum recursion"),
        ('["a", "b"]', r'the instance must be a JSON object .*\["a", "b"\]$'),
        ("7", "the instance must be a JSON object .* Received: 7$"),
        ('{"text_a": null}', "the input 'text_a' must be a text or a number"),
        ('{"text_a": {}}', "the input 'text_a' must be a text or a number"),
        ('{"a": [["x"], []]}', "the input 'a' must be .* lists of one length"),
        ('{"text_a": "\\ud800"}', "the input 'text_a' must be a text"),
    ],
)
def test_an_error_is_one_line(address, run_main, instance, message):
    with pytest.raises(SystemExit, match=f"^error: {message}"):
        run_main(grpc_client, f"--address={address}", instance)


@pytest.mark.parametrize("address", ["localhost:1", "", "no such host:8500"])
def test_no_server_is_one_line(address, run_main):
    with pytest.raises(SystemExit, match=r"^error: \S.*$"):
        run_main(grpc_client, f"--address={address}", "{}")


def test_the_package_that_is_missing_is_one_line():
    hidden = "import sys; sys.modules['tensorflow_serving'] = None; "
    done = subprocess.run(
        [sys.executable, "-c", f"{hidden}import grpc_client"],
        cwd=pathlib.Path(grpc_client.__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert last.endswith("Run: pip install tensorflow-serving-api")


def test_an_export_answers_raw_text(export):
    model, address = export

    found = grpc_client.predict(grpc_client.connect(address), INPUTS)

    inputs = {name: tf.constant(texts) for name, texts in INPUTS.items()}
    expected = model.signatures["serving_default"](**inputs)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-6)


def test_a_reply_may_be_of_more_than_4_mebibytes(export):
    _, address = export
    texts = ["the house " * 64] * 300

    found = grpc_client.predict(
        grpc_client.connect(address), {"text_a": texts, "text_b": texts}
    )

    assert found["sequence_output"].nbytes > 2**22


def test_strings_of_an_export_are_printed(export, run_main):
    _, address = export
    flags = [f"--address={address}", "--signature_name=fill_mask"]

    printed = run_main(grpc_client, *flags, '{"text": "The [MASK]."}')

    [tokens] = json.loads(printed)["top_pieces"]
    assert len(tokens) == 5
    assert all(isinstance(token, str) for token in tokens)


@pytest.mark.parametrize(
    ("signature", "instance", "message"),
    [
        ("fill_mask", {"text": "[MASK]" * 9}, ".*at most 8"),
        ("fill_mask", {"text": ["a"]}, ".*text"),
        ("fill_mask", {}, ".*text"),
        ("serving_default", {"text_a": 1, "text_b": "b"}, ".*string"),
        ("poetry", {"text": "a"}, "no signature poetry$"),
    ],
)
def test_what_an_export_refuses_is_one_line(
    export, run_main, signature, instance, message
):
    _, address = export
    flags = [f"--address={address}", f"--signature_name={signature}"]

    with pytest.raises(SystemExit, match=f"^error: {message}.*$"):
        run_main(grpc_client, *flags, json.dumps(instance))


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
