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
# Rows of a request; an encoder's server refuses more.
MAX_BATCH_SIZE = 32
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
    max_batch_size: int = MAX_BATCH_SIZE,
) -> dict[str, np.ndarray]:
    """Requests the outputs of a batch of any size.

    Args:
        stub: As returned by `connect`.
        inputs: Arrays of str or bytes by name; their first axis is the batch.
        model_name: Name by which the server knows the model.
        signature_name: Name of the signature to call.
        timeout: Of a request, in seconds.
        max_batch_size: Largest number of rows of a request; more are split
            into several.

    Returns:
        Arrays by name; strings are bytes. Where requests have outputs of
        different lengths, the shorter ones end with zeros.

    Raises:
        grpc.RpcError: The server refuses the request (INVALID_ARGUMENT), fails,
            or cannot be reached.
        ValueError: An input is not an array.
    """
    arrays = {name: _array(name, value) for name, value in inputs.items()}
    size = max((len(one) for one in arrays.values() if one.ndim), default=1)
    parts = []
    for start in range(0, max(size, 1), max_batch_size):
        request = predict_pb2.PredictRequest()
        request.model_spec.name = model_name
        request.model_spec.signature_name = signature_name
        for name, one in arrays.items():
            part = one[start : start + max_batch_size] if one.ndim else one
            request.inputs[name].CopyFrom(tf.make_tensor_proto(part))
        outputs = stub.Predict(request, timeout).outputs
        parts.append({name: tf.make_ndarray(o) for name, o in outputs.items()})
    return {name: _join([part[name] for part in parts]) for name in parts[0]}


def _join(parts: list[np.ndarray]) -> np.ndarray:
    if len(parts) == 1:
        return parts[0]
    longest = np.max([part.shape for part in parts], axis=0)[1:]
    return np.concatenate(
        [
            np.pad(part, [(0, 0), *((0, n) for n in longest - part.shape[1:])])
            for part in parts
        ]
    )


def _array(name: str, value: Any) -> np.ndarray:
    try:
        return tf.make_ndarray(tf.make_tensor_proto(value))
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
    if plain.get("error"):
        _fail(_text(plain["error"]))
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
