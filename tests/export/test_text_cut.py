"""Texts are cut, and their first tokens are the same."""

import json
import random
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import exported_text, text_cut

LIMITS = (1, 2, 5, 16, 64)
MAX_BYTES = 200 * 2**20
MAX_SECONDS = 2.0


@pytest.fixture(scope="module")
def long_texts(text_maker):
    """Texts of up to 600 characters, with and without spaces."""
    rng = random.Random(3)
    odd = "abcdefghiste ▁é\u0301¨\x07\u200b漢\t\n'Σ"
    texts = ["", " " * 600, "e" * 600]
    for _ in range(120):
        words = (text_maker.hard(rng) for _ in range(rng.randint(1, 30)))
        texts += [
            " ".join(words),
            "".join(rng.choices(rng.choice(text_maker.pools), k=300)),
            "".join(rng.choices("abcdefghiste     ", k=600)),
            "".join(rng.choices(odd, k=rng.randint(1, 600))),
        ]
    return texts


def first_tokens(tokens, limit):
    """Returns id, start and end of the first tokens of each text."""
    values = np.stack([tokens.ids, tokens.starts, tokens.ends], 1)
    starts, sizes = (row.numpy() for row in tokens.rows())
    return [
        values[start : start + min(size, limit)].tolist()
        for start, size in zip(starts, sizes, strict=True)
    ]


@pytest.mark.parametrize("name", ["english", "chinese"])
def test_the_first_tokens_are_the_same(name, graph_of, long_texts):
    graph, texts = graph_of(name).graph, tf.constant(long_texts)
    every = graph(texts, with_offsets=True)

    for limit in LIMITS:
        limits = tf.fill(tf.shape(texts), limit)
        found = graph(texts, limits, with_offsets=True)

        assert first_tokens(found, limit) == first_tokens(every, limit)
        assert len(found.ids) < len(every.ids)


def test_pairs_are_packed_as_without_a_cut(tiny, long_texts):
    first, second = tf.constant(long_texts), tf.constant(long_texts[::-1])

    for length in (5, 16, 49):
        found = exported_text.encode_pairs(
            first, second, tiny.graph, max_seq_length=length
        )

        expected = exported_text.pack_pairs(
            tiny.graph(tf.concat([first, second], 0)),
            max_seq_length=length,
            special=tiny.graph.special_ids,
        )
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize("name", ["english", "chinese"])
def test_each_text_has_its_own_limit(name, graph_of):
    graph = graph_of(name).graph
    text = "a house on the hill " * 100

    tokens = graph(
        tf.constant([text, text, "word"]),
        tf.constant([3, exported_text.NO_LIMIT, 3]),
    )

    assert [*tokens.rows()[1].numpy()] == [4, 500, 1]


def test_only_very_long_words_are_cut(graph_of):
    graph = graph_of("english").graph
    depth = 16  # Of the longest piece.
    size = 2 * depth + text_cut.MAX_WORD_SIZE
    # Unknown characters do not count.
    words = ["漢" * size, "e" * (size - 1), "e" * (size + 9)]

    limits = tf.fill([len(words)], 1)
    tokens = graph(tf.constant(words), limits, with_offsets=True)

    starts, sizes = (values.numpy() for values in tokens.rows())
    ends = tokens.ends.numpy()[starts + sizes - 1]
    assert ends.tolist() == [size, size - 1, size]


# Prints seconds of CPU time and bytes of memory for each text of a file.
MEASUREMENT = """
import json, sys, time
import tensorflow as tf

def memory(name):
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines[name].split()[0]) * 1024

export, file = sys.argv[1:]
loaded = tf.saved_model.load(export)
ask = loaded.signatures["serving_default"]
empty = tf.constant([""])
ask(text_a=tf.constant(["a word " * 999]), text_b=empty)
results = []
before = memory("VmRSS")
for text in json.load(open(file)):
    start = time.process_time()
    ask(text_a=tf.constant([text]), text_b=empty)
    seconds = time.process_time() - start
    results.append((seconds, memory("VmHWM") - before))
print(json.dumps(results))
"""


def test_a_million_characters_take_little_time_and_memory(
    exported_encoder, tmp_path
):
    rng = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    alphabets = (letters, letters + " " * 5, "漢字", " ", "e", "½\u0301")
    texts = ["".join(rng.choices(one, k=10**6)) for one in alphabets]
    path = tmp_path / "texts.json"
    path.write_text(json.dumps(texts))

    done = subprocess.run(
        [
            *(sys.executable, "-c", MEASUREMENT),
            *(exported_encoder.summary.path, str(path)),
        ],
        capture_output=True,
        check=True,
        text=True,
    )

    for seconds, num_bytes in json.loads(done.stdout):
        assert seconds < MAX_SECONDS
        assert num_bytes < MAX_BYTES
