"""Times an exported encoder or classifier: single texts, and a mixed load.

    python benchmarks/serving.py --saved_model=export/1
    python benchmarks/serving.py --saved_model=export/1 \
        --peer='before=python benchmarks/serving.py --saved_model=old/1 --json'

Single texts of 3 to 20 words are asked for one after the other. The mixed load
has several requests in flight; one text in eight has 400 words, and the others
3 to 20. Requests in flight share runs of the model: TensorFlow's own batching
scheduler, which is also TF Serving's, puts them together in this process, with
the settings of `batching_parameters.txt` (32 rows, 2 ms, two threads). For a
server itself, see `examples/serving/load_generator.py`. The last line of the
output is one JSON object; latencies are in milliseconds.
"""

import argparse
import concurrent.futures
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import alternation

_LONG_TEXT_EVERY = 8
_NUM_LONG_WORDS = 400
_BATCH_SIZE = 32
_TIMEOUT_MICROS = 2_000
_NUM_BATCH_THREADS = 2


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--saved_model", required=True, help="export/1")
    parser.add_argument("--num_single", type=int, default=100)
    parser.add_argument("--num_mixed", type=int, default=160)
    parser.add_argument("--num_in_flight", type=int, default=8)
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--alternations", type=int, default=5)
    parser.add_argument(
        "--json", action="store_true", help="the JSON line only"
    )
    return parser.parse_args()


def make_texts(number: int, *, long_every: int | None = None) -> list[str]:
    """Returns texts of words from Python's documentation, always the same."""
    from pydoc_data import topics

    words = " ".join(topics.topics.values()).split()
    rng, texts = random.Random(0), []
    for index in range(number):
        size = rng.randint(3, 20)
        if long_every and index % long_every == long_every - 1:
            size = _NUM_LONG_WORDS
        start = rng.randrange(len(words) - size)
        texts.append(" ".join(words[start : start + size]))
    return texts


def load(path: str) -> Callable[[Sequence[str]], Any]:
    """Returns a function from texts to one output of the model."""
    import tensorflow as tf

    model = tf.saved_model.load(path)
    names = model.signatures["serving_default"].structured_outputs
    [name] = {"pooled_output", "probabilities", "score"} & set(names)

    @tf.function(
        autograph=False, input_signature=[tf.TensorSpec([None], tf.string)]
    )
    def ask(texts: tf.Tensor) -> tf.Tensor:
        serve = model.signatures["serving_default"]
        return serve(text_a=texts, text_b=tf.zeros_like(texts))[name]

    return ask


def batched(ask: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function behind a batching scheduler, for several threads."""
    import tensorflow as tf

    share = tf.nondifferentiable_batch_function(
        _NUM_BATCH_THREADS, _BATCH_SIZE, _TIMEOUT_MICROS, autograph=False
    )(lambda texts: ask(texts))
    return tf.function(
        share,
        autograph=False,
        input_signature=[tf.TensorSpec([None], tf.string)],
    )


def latencies(
    ask: Callable[..., Any], texts: Sequence[str], num_in_flight: int
) -> list[float]:
    """Returns the milliseconds from each request to its reply."""
    import tensorflow as tf

    def timed(text: str) -> float:
        start = time.perf_counter()
        ask(tf.constant([text])).numpy()
        return 1e3 * (time.perf_counter() - start)

    with concurrent.futures.ThreadPoolExecutor(num_in_flight) as pool:
        return list(pool.map(timed, texts))


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Times both loads in this process; the first texts are not counted."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    ask = load(arguments.saved_model)
    texts = make_texts(arguments.num_single)
    latencies(ask, texts[:10], 1)
    single = latencies(ask, texts, 1)
    share, in_flight = batched(ask), arguments.num_in_flight
    texts = make_texts(arguments.num_mixed, long_every=_LONG_TEXT_EVERY)
    latencies(share, texts[: 2 * in_flight], in_flight)
    start = time.perf_counter()
    mixed = latencies(share, texts, in_flight)
    seconds = time.perf_counter() - start
    return {
        "what": "raw texts, mixed load",
        "saved_model": arguments.saved_model,
        "num_in_flight": in_flight,
        "single_p50_milliseconds": round(statistics.median(single), 2),
        "mixed_p50_milliseconds": round(statistics.median(mixed), 2),
        "mixed_p95_milliseconds": round(
            statistics.quantiles(mixed, n=20)[-1], 2
        ),
        "mixed_requests_per_second": len(texts) / seconds,
    }


if __name__ == "__main__":
    alternation.run(parse_arguments(), measure, key="mixed_requests_per_second")
