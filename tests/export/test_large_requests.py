"""No request of 64 KB costs much more than English text of that size.

The model is tiny, so that the rest of the signature is measured. Work that
grows with the square of a request would cost hundreds of times as much.
"""

import ctypes
import dataclasses
import pathlib
import re
import time

import pytest
import tensorflow as tf

from tests.exported_models import TINY_CONFIG

pytestmark = pytest.mark.slow
NUM_BYTES = 2**16
MAX_RATIO = 20
MAX_MEBIBYTES = 64
# Strings that are repeated.
WORST = {
    "english": "The snow fell on the hills, and in the valley it rained. ",
    "letters": "a",
    "tokens of a letter": "q7",
    "points": ". ",
    "numbers": "25, ",
    "chinese": "漢",
    "korean": "각",
    "emoji": "😀",
    "marks": "\u0301",
    "square": "㍿ ",
    "in brackets": "⑴",
    "18 characters": "\ufdfa",
    "words of 18 characters": "\ufdfa ",
    "invisible": "a\u200b",
    "capital sigma": "Σ ",
    "spaces": " ",
    "mask": "[MASK]",
    "nul": "\0",
}
REFUSED = ("18 characters", "words of 18 characters")
OPTIONS = ["a", "b", "c", "d"]
LENGTHS = dict.fromkeys(
    ("span", "beam_span"), {"max_seq_length": 384, "doc_stride": 128}
)


def requests_of(name, text, size):
    """Yields signature and inputs of requests of about `size` bytes."""

    def fill(share=1):
        return text * (size // share // len(text.encode()))

    if name == "multiple_choice":
        some = {"article": ["x"], "question": ["a _"], "options": [OPTIONS]}
        for changes in (
            {"article": [fill()]},
            {"question": [fill()]},
            {"options": [[fill(4)] * 4]},
            {"question": ["_" * 16], "options": [[fill(4)] * 4]},
            {"question": ["_" * (size // 2)], "options": [[fill(8)] * 4]},
        ):
            yield "serving_default", some | changes
    elif "span" in name:
        for pair in ((fill(), "short"), ("short", fill())):
            inputs = zip(("question", "context"), pair, strict=True)
            yield "serving_default", {key: [value] for key, value in inputs}
    elif name == "token_classifier":
        yield "serving_default", {"text": [fill()]}
    else:
        yield "serving_default", {"text_a": [fill()], "text_b": [""]}
        if name == "pretraining":
            yield "fill_mask", {"text": [fill()]}


def forget_most_memory():
    """Starts to count from what is used now, in MiB."""
    ctypes.CDLL(None).malloc_trim(0)
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    return most_memory()


def most_memory():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


@pytest.mark.parametrize(
    "name",
    [
        "encoder",
        "pretraining",
        "classifier",
        "span",
        "beam_span",
        "multiple_choice",
        "token_classifier",
    ],
)
def test_a_large_request(name, export_task, shared_data):
    export = export_task(
        name,
        shared_data / "data/spm/30k-clean.model",
        albert_config=dataclasses.replace(
            TINY_CONFIG, vocab_size=30_000, max_position_embeddings=512
        ),
        **LENGTHS.get(name, {"max_seq_length": 512}),
    )
    # The first request of a size also pays for buffers that are kept.
    for signature, inputs in requests_of(name, "warm ", NUM_BYTES):
        export.ask(signature, **inputs)
    usual = []
    for kind, text in WORST.items():
        requests = requests_of(name, text, NUM_BYTES)
        for number, (signature, inputs) in enumerate(requests):
            memory, start = forget_most_memory(), time.process_time()
            try:
                export.ask(signature, **inputs)
            except tf.errors.InvalidArgumentError as error:
                assert "3 times its length" in str(error)
                assert "_" in str(inputs) or kind in REFUSED
            seconds = time.process_time() - start
            memory = most_memory() - memory
            if kind == "english":
                usual.append(seconds)
            assert seconds <= MAX_RATIO * usual[number], kind
            assert memory <= MAX_MEBIBYTES, kind
