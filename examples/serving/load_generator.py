"""Sends raw texts to a model, several at a time, and prints its latency.

    python load_generator.py --saved_model=export/1
    python load_generator.py --rest=http://localhost:8501/v1/models/albert
    python load_generator.py --grpc=localhost:8500 --hard

Without a server the SavedModel runs in this process, called by one thread for
each request in flight. Latency is measured from the call to the complete
reply; warm-up requests are not counted. With `--hard` the texts have 0 to
100,000 characters and are partly not UTF-8, and the model may refuse one
(INVALID_ARGUMENT). Anything but an answer or a refusal is a failure. The last
line printed is a JSON object. The exit code is 1 if there was a failure, or a
refusal without `--hard`. If there is no model to ask, the program ends with
one line, `error: ...`, and exit code 1.
"""

import argparse
import contextlib
import dataclasses
import functools
import http.client
import itertools
import json
import logging
import operator
import os
import random
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from typing import Any

Request = dict[str, Any]
Send = Callable[[Request], Any]

# Inputs of each task, and the largest number of words of each.
TASKS = {
    "encoder": {"text_a": 40, "text_b": 40},
    "classifier": {"text_a": 40, "text_b": 40},
    "squad": {"question": 12, "context": 200},
    "race": {"article": 300, "question": 12, "options": 12},
}
NUM_OPTIONS = 4
MAX_HARD_SIZE = 100_000
ACCENT = "\u0301"
HARD_CHARACTERS = f"aB1 ,.é{ACCENT}ßİ\u0627\u0644漢字\U0001f600\u200d\x01\0"
PERCENTILES = (50, 95, 99)
NUM_SHOWN_FAILURES = 5


class RefusedError(Exception):
    """The model has refused a request as invalid."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one request ended.

    Args:
        kind: `answer`, `refusal` or `failure`.
        seconds: From the call to the end.
        message: The reason, if there is no answer.
    """

    kind: str
    seconds: float
    message: str = ""


def ask_saved_model(path: str) -> Send:
    """Returns a function that queries a SavedModel in this process.

    Raises:
        OSError: There is no SavedModel.
    """
    with _quiet_import():
        import tensorflow as tf

        try:
            # The operations of the tokenizers, which TF Serving has.
            import tensorflow_text  # noqa: F401
        except ImportError as error:
            advice = "Run: pip install tensorflow-text"
            raise OSError(f"{error}. {advice}") from error

    model = tf.saved_model.load(path)

    def send(request: Request) -> Any:
        signature = model.signatures["serving_default"]
        inputs = {n: tf.constant([value]) for n, value in request.items()}
        try:
            outputs = signature(**inputs)
            return {name: value.numpy() for name, value in outputs.items()}
        except tf.errors.InvalidArgumentError as error:
            raise RefusedError(error.message) from error

    return send


def ask_rest(address: str) -> Send:
    """Returns a function that queries a server, each time anew.

    Raises:
        OSError: No server answers at the address.
        ValueError: The address is not valid.
    """
    import rest_client

    try:
        # A status of any kind shows that a server is there.
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(
                address, timeout=rest_client.TIMEOUT_SECONDS
            ).close()
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise OSError(f"no answer from {address}: {reason}") from error

    def send(request: Request) -> Any:
        try:
            return rest_client.predict(address, [request])
        except urllib.error.HTTPError as error:
            if error.code != 400:
                raise
            raise RefusedError(rest_client.reason(error)) from error

    return send


def ask_grpc(address: str) -> Send:
    """Returns a function that queries a server over one shared connection.

    Raises:
        OSError: No server answers at the address.
    """
    with _quiet_import():
        import grpc_client
    import grpc

    try:
        stub = grpc_client.connect(address)
        grpc_client.predict(stub, {})
    except grpc.RpcError as error:
        # A refusal of any kind shows that a server is there.
        if error.code() == grpc.StatusCode.UNAVAILABLE:
            reason = error.details()
            raise OSError(f"no answer from {address}: {reason}") from error

    def send(request: Request) -> Any:
        inputs = {name: [value] for name, value in request.items()}
        try:
            return grpc_client.predict(stub, inputs)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.INVALID_ARGUMENT:
                raise
            raise RefusedError(error.details()) from error

    return send


@contextlib.contextmanager
def _quiet_import() -> Iterator[None]:
    """Hides what TensorFlow prints when it starts and when it retraces.

    Its C++ code prints before it reads any log level.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    stderr = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


class PlainTexts:
    """Makes texts of consecutive words from Python's own documentation."""

    def __init__(self, *, seed: int) -> None:
        from pydoc_data import topics

        self._words = " ".join(topics.topics.values()).split()
        self._rng = random.Random(seed)

    def __call__(self, max_words: int) -> str:
        """Returns a text of 1 to `max_words` words."""
        size = self._rng.randint(1, max_words)
        start = self._rng.randrange(len(self._words) - size)
        return " ".join(self._words[start : start + size])


class HardTexts:
    """Makes texts that are hard on a model: long ones, and arbitrary bytes."""

    def __init__(self, *, seed: int) -> None:
        self._rng = random.Random(seed)
        self._kinds = itertools.cycle(
            [self._rng.randbytes, self._characters, self._words]
            + [functools.partial(operator.mul, c) for c in (b"\0", "w", ACCENT)]
        )

    def __call__(self, max_words: int) -> str | bytes:
        """Returns a text of 0 to 100,000 characters; ignores `max_words`."""
        # Sizes are uniform on a logarithmic scale; of twelve texts, one is
        # empty and one has the largest size.
        size = int(MAX_HARD_SIZE ** self._rng.uniform(-0.1, 1.1))
        return next(self._kinds)(min(size, MAX_HARD_SIZE))

    def _characters(self, size: int) -> str:
        return "".join(self._rng.choices(HARD_CHARACTERS, k=size))

    def _words(self, size: int) -> str:
        return ("word " * size)[:size]


def make_requests(
    task: str, make_text: Callable[[int], Any]
) -> Iterator[Request]:
    """Yields requests without end."""
    while True:
        yield {
            name: [make_text(max_words) for _ in range(NUM_OPTIONS)]
            if name == "options"
            else make_text(max_words)
            for name, max_words in TASKS[task].items()
        }


def run(
    send: Send, requests: Iterable[Request], *, num_in_flight: int
) -> list[Outcome]:
    """Sends requests, of which `num_in_flight` are always under way."""
    with futures.ThreadPoolExecutor(num_in_flight) as pool:
        return list(pool.map(lambda request: _ask(send, request), requests))


def _ask(send: Send, request: Request) -> Outcome:
    kind, message = "answer", ""
    start = time.perf_counter()
    try:
        send(request)
    except RefusedError as error:
        kind, message = "refusal", str(error)
    except Exception as error:  # counted and shown, whatever it is
        kind, message = "failure", f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - start
    return Outcome(kind=kind, seconds=seconds, message=message)


def summarize(outcomes: list[Outcome], *, seconds: float) -> dict[str, Any]:
    """Returns counts, throughput, and latencies of the answers.

    Args:
        outcomes: Outcomes of all requests.
        seconds: From the first request to the last reply.
    """
    kinds = [outcome.kind for outcome in outcomes]
    latencies = sorted(o.seconds for o in outcomes if o.kind == "answer")
    result = {
        "num_requests": len(outcomes),
        "num_answers": kinds.count("answer"),
        "num_refusals": kinds.count("refusal"),
        "num_failures": kinds.count("failure"),
        "seconds": round(seconds, 3),
        "requests_per_second": round(len(outcomes) / seconds, 2),
    }
    for percent in PERCENTILES if latencies else ():
        milliseconds = 1e3 * percentile(latencies, percent)
        result[f"p{percent}_milliseconds"] = round(milliseconds, 2)
    return result


def percentile(values: list[float], percent: int) -> float:
    """Returns the smallest of sorted values that is not below `percent` %.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50), percentile([1.0, 2.0], 99)
    (2.0, 2.0)
    """
    rank = -(-percent * len(values) // 100)
    return values[max(rank, 1) - 1]


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    whom = parser.add_mutually_exclusive_group(required=True)
    whom.add_argument("--saved_model", help="folder with saved_model.pb")
    whom.add_argument("--rest", help="http://HOST:PORT/v1/models/NAME")
    whom.add_argument("--grpc", help="HOST:PORT")
    parser.add_argument("--task", default="encoder", choices=sorted(TASKS))
    parser.add_argument("--num_requests", type=_positive, default=2_000)
    parser.add_argument("--num_in_flight", type=_positive, default=8)
    parser.add_argument("--num_warm_up", type=int, default=16)
    parser.add_argument("--hard", action="store_true", help="any bytes at all")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {number}")
    return number


def main() -> None:
    """Sends the requests and prints the results."""
    arguments = parse_arguments()
    try:
        if arguments.saved_model is not None:
            send = ask_saved_model(arguments.saved_model)
        elif arguments.rest is not None:
            send = ask_rest(arguments.rest)
        else:
            send = ask_grpc(arguments.grpc)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {' '.join(str(error).split())}")
    texts = HardTexts if arguments.hard else PlainTexts
    requests = make_requests(arguments.task, texts(seed=arguments.seed))
    warm_up = itertools.islice(requests, arguments.num_warm_up)
    run(send, warm_up, num_in_flight=arguments.num_in_flight)
    counted = list(itertools.islice(requests, arguments.num_requests))
    start = time.perf_counter()
    outcomes = run(send, counted, num_in_flight=arguments.num_in_flight)
    result = summarize(outcomes, seconds=time.perf_counter() - start)
    wanted = {"answer", "refusal"} if arguments.hard else {"answer"}
    bad = [outcome for outcome in outcomes if outcome.kind not in wanted]
    for outcome in bad[:NUM_SHOWN_FAILURES]:
        print(f"{outcome.kind}: {outcome.message}", file=sys.stderr)
    for name, value in result.items():
        print(f"{name:24} {value}")
    print(json.dumps(result))
    if bad:
        sys.exit(1)


if __name__ == "__main__":
    main()
