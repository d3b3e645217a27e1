"""Asks a model behind TF Serving over gRPC.

pip install tensorflow-serving-api
python grpc_client.py '{"text_a": "A man eats.", "text_b": "He is hungry."}'
"""

import argparse
import json
from collections.abc import Mapping
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

ADDRESS = "localhost:8500"
TIMEOUT_SECONDS = 60.0
# By default 4 MiB, which an encoder's `sequence_output` exceeds.
_OPTIONS = [("grpc.max_receive_message_length", -1)]


def connect(address: str) -> Any:
    """Returns what `predict` asks; threads may share it."""
    channel = grpc.insecure_channel(address, _OPTIONS)
    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


def predict(
    stub: Any,
    inputs: Mapping[str, Any],
    *,
    model_name: str = "albert",
    signature_name: str = "serving_default",
    timeout: float = TIMEOUT_SECONDS,
) -> dict[str, np.ndarray]:
    """Asks for the outputs of a batch.

    Args:
        stub: Of `connect`.
        inputs: Arrays of str or bytes by name; their first axis is the batch.
        model_name: The name that the model is served by.
        signature_name: What the model is asked.
        timeout: In seconds.

    Returns:
        Arrays by name; strings are bytes.

    Raises:
        grpc.RpcError: The server refuses (INVALID_ARGUMENT), fails, or is not
            there.
    """
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model_name
    request.model_spec.signature_name = signature_name
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    outputs = stub.Predict(request, timeout).outputs
    return {name: tf.make_ndarray(value) for name, value in outputs.items()}


def main() -> None:
    """Asks, and prints the reply."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", default=ADDRESS)
    parser.add_argument("--model_name", default="albert")
    parser.add_argument("--signature_name", default="serving_default")
    parser.add_argument("instance", help="JSON object of the inputs by name")
    arguments = parser.parse_args()
    try:
        instance = json.loads(arguments.instance)
        outputs = predict(
            connect(arguments.address),
            {name: [value] for name, value in instance.items()},
            model_name=arguments.model_name,
            signature_name=arguments.signature_name,
        )
    except grpc.RpcError as error:
        raise SystemExit(f"error: {error.details()}") from error
    except ValueError as error:
        raise SystemExit(f"error: {error}") from error
    plain = {name: value.tolist()[0] for name, value in outputs.items()}
    print(json.dumps(plain, default=_text, ensure_ascii=False))


def _text(content: bytes) -> str:
    return content.decode(errors="replace")


if __name__ == "__main__":
    main()
