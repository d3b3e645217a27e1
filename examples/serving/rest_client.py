"""Asks a model behind TF Serving over REST; Python's own library is enough.

python rest_client.py '{"text_a": "A man eats.", "text_b": "He is hungry."}'
"""

import argparse
import base64
import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

ADDRESS = "http://localhost:8501/v1/models/albert"
TIMEOUT_SECONDS = 60.0


def predict(
    address: str,
    instances: Sequence[Mapping[str, Any]],
    *,
    signature_name: str = "serving_default",
    timeout: float = TIMEOUT_SECONDS,
) -> list[Any]:
    """Asks for the outputs of some instances.

    Args:
        address: `http://HOST:PORT/v1/models/NAME`.
        instances: Each has its inputs by name: str, or bytes that need not be
            UTF-8, or a list of them.
        signature_name: What the model is asked.
        timeout: In seconds.

    Returns:
        For each instance its outputs by name; if there is only one output,
        its value.

    Raises:
        urllib.error.HTTPError: The server refuses (400), or fails; the body
            is a JSON object with the reason in `error`.
        OSError: There is no answer.
    """
    body = {"signature_name": signature_name, "instances": list(instances)}
    request = urllib.request.Request(
        f"{address}:predict", json.dumps(body, default=_base64).encode()
    )
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        return json.load(reply)["predictions"]


def _base64(content: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(content).decode()}


def main() -> None:
    """Asks, and prints the reply."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", default=ADDRESS)
    parser.add_argument("--signature_name", default="serving_default")
    parser.add_argument("instance", help="JSON object of the inputs by name")
    arguments = parser.parse_args()
    try:
        predictions = predict(
            arguments.address,
            [json.loads(arguments.instance)],
            signature_name=arguments.signature_name,
        )
    except urllib.error.HTTPError as error:
        raise SystemExit(f"error: {json.load(error)['error']}") from error
    except (OSError, ValueError) as error:
        raise SystemExit(f"error: {error}") from error
    print(json.dumps(predictions[0], ensure_ascii=False))


if __name__ == "__main__":
    main()
