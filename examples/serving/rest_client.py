"""Queries a model behind TF Serving over REST, with the standard library.

python rest_client.py '{"text_a": "A man eats.", "text_b": "He is hungry."}'
"""

import argparse
import base64
import http.client
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

ADDRESS = "http://localhost:8501/v1/models/albert"
TIMEOUT_SECONDS = 60.0
# Instances of a request; an encoder's server refuses more.
MAX_BATCH_SIZE = 32


def predict(
    address: str,
    instances: Sequence[Mapping[str, Any]],
    *,
    signature_name: str = "serving_default",
    timeout: float = TIMEOUT_SECONDS,
    max_batch_size: int = MAX_BATCH_SIZE,
) -> list[Any]:
    """Requests the outputs of any number of instances.

    Args:
        address: `http://HOST:PORT/v1/models/NAME`.
        instances: For each, its inputs by name: str, or bytes that need not
            be UTF-8, or a list of them.
        signature_name: Name of the signature to call.
        timeout: Of a request, in seconds.
        max_batch_size: Largest number of instances of a request; more are
            split into several.

    Returns:
        For each instance its outputs by name; if there is only one output,
        its value.

    Raises:
        urllib.error.HTTPError: The server refuses the request (400) or fails;
            the body is a JSON object with the reason in `error`.
        OSError: There is no answer.
        ValueError: The address is not valid, or the answer is not TF
            Serving's.
    """
    predictions: list[Any] = []
    for start in range(0, len(instances), max_batch_size):
        part = instances[start : start + max_batch_size]
        predictions += _request(address, part, signature_name, timeout)
    return predictions


def _request(
    address: str,
    instances: Sequence[Mapping[str, Any]],
    signature_name: str,
    timeout: float,
) -> list[Any]:
    body = {"signature_name": signature_name, "instances": list(instances)}
    request = urllib.request.Request(
        f"{address}:predict", json.dumps(body, default=_base64).encode()
    )
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        content = reply.read()
    try:
        return json.loads(content)["predictions"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{address} is not a model of TF Serving. Received: "
            f"{content[:80]!r}"
        ) from error


def reason(error: urllib.error.HTTPError) -> str:
    """Returns the reason that a server gives, or else the HTTP status."""
    try:
        return str(json.load(error)["error"])
    except (ValueError, TypeError, KeyError):
        return str(error)


def _base64(content: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(content).decode()}


def main() -> None:
    """Queries the model and prints the reply."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", default=ADDRESS)
    parser.add_argument("--signature_name", default="serving_default")
    parser.add_argument("instance", help="JSON object of the inputs by name")
    arguments = parser.parse_args()
    try:
        [prediction] = predict(
            arguments.address,
            [_inputs(arguments.instance)],
            signature_name=arguments.signature_name,
        )
    except urllib.error.HTTPError as error:
        _fail(reason(error))
    except (OSError, http.client.HTTPException) as error:
        cause = getattr(error, "reason", error)
        _fail(f"no answer from {arguments.address}: {cause}")
    except ValueError as error:
        _fail(str(error))
    if isinstance(prediction, dict) and prediction.get("error"):
        _fail(prediction["error"])
    print(json.dumps(prediction, ensure_ascii=False))


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


def _fail(message: str) -> NoReturn:
    sys.exit(f"error: {' '.join(message.split())}")


if __name__ == "__main__":
    main()
