"""Queries a model behind TF Serving over gRPC.

pip install tensorflow-serving-api
python grpc_client.py '{"text_a": "A man eats.", "text_b": "He is hungry."}'
"""

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

try:
    import grpc
    import numpy as np
    import tensorflow as tf
    from tensorflow_serving.apis import (
        predict_pb2,
        prediction_service_pb2_grpc,
    )
except ModuleNotFoundError as error:
    sys.exit(f"error: {error}. Run: pip install tensorflow-serving-api")

ADDRESS = "localhost:8500"
TIMEOUT_SECONDS = 60.0
# By default 4 MiB, which an encoder's `sequence_output` exceeds.
_OPTIONS = [("grpc.max_receive_message_length", -1)]


def connect(address: str) -> Any:
    """Returns a stub for `predict`; threads may share it."""
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
    """Requests the outputs of a batch.

    Args:
        stub: As returned by `connect`.
        inputs: Arrays of str or bytes by name; their first axis is the batch.
        model_name: Name by which the server knows the model.
        signature_name: Name of the signature to call.
        timeout: In seconds.

    Returns:
        Arrays by name; strings are bytes.

    Raises:
        grpc.RpcError: The server refuses the request (INVALID_ARGUMENT), fails,
            or cannot be reached.
        ValueError: An input is not an array.
    """
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model_name
    request.model_spec.signature_name = signature_name
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(_tensor(name, value))
    outputs = stub.Predict(request, timeout).outputs
    return {name: tf.make_ndarray(value) for name, value in outputs.items()}


def _tensor(name: str, value: Any) -> Any:
    try:
        return tf.make_tensor_proto(value)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the input {name!r} must be a text or a number, or lists of one "
            "length of either."
        ) from error


def main() -> None:
    """Queries the model and prints the reply."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", default=ADDRESS)
    parser.add_argument("--model_name", default="albert")
    parser.add_argument("--signature_name", default="serving_default")
    parser.add_argument("instance", help="JSON object of the inputs by name")
    arguments = parser.parse_args()
    try:
        inputs = _inputs(arguments.instance)
        outputs = predict(
            connect(arguments.address),
            {name: [value] for name, value in inputs.items()},
            model_name=arguments.model_name,
            signature_name=arguments.signature_name,
        )
    except grpc.RpcError as error:
        _fail(error.details() or error.code().name)
    except ValueError as error:
        _fail(str(error))
    plain = {name: value.tolist()[0] for name, value in outputs.items()}
    print(json.dumps(plain, default=_text, ensure_ascii=False))


def _inputs(instance: str) -> dict[str, Any]:
    try:
        inputs = json.loads(instance)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the instance is not JSON: {error}") from error
    if not isinstance(inputs, dict):
        raise ValueError(
            "the instance must be a JSON object of the inputs by name. "
            f"Received: {instance[:80]}"
        )
    return inputs


def _text(content: bytes) -> str:
    return content.decode(errors="replace")


def _fail(message: str) -> NoReturn:
    sys.exit(f"error: {' '.join(message.split())}")


if __name__ == "__main__":
    main()
