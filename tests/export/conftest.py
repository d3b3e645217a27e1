"""Tokenizers and their graphs, made once, and texts that are hard on them."""

import functools
import random
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import text_graph
from albert_tf.text import tokenizer

NUM_CODE_POINTS = 0x110000
SURROGATES = range(0xD800, 0xE000)


class GraphTokenizer:
    """A text graph that is called like a tokenizer, on many texts.

    Args:
        vocabulary: What both loaders take.
    """

    def __init__(self, **vocabulary):
        self.graph = text_graph.load_text_graph(**vocabulary)
        self.tokenizer = tokenizer.load_tokenizer(**vocabulary)
        self.functions = {}

    def run(self, texts, *, with_offsets):
        """Returns ids, row ids and, if asked for, starts and ends."""
        if with_offsets not in self.functions:
            self.functions[with_offsets] = tf.function(
                functools.partial(self._run, with_offsets=with_offsets),
                autograph=False,
                input_signature=[tf.TensorSpec([None], tf.string)],
            )
        encoded = [t if isinstance(t, bytes) else t.encode() for t in texts]
        found = self.functions[with_offsets](tf.constant(encoded, tf.string))
        return [array.numpy() for array in found]

    def _run(self, texts, *, with_offsets):
        pieces = self.graph(texts, with_offsets=with_offsets)
        offsets = (pieces.starts, pieces.ends) if with_offsets else ()
        return pieces.ids, pieces.row_ids, *offsets

    def encode(self, texts):
        """Returns the ids of each text."""
        ids, rows = self.run(texts, with_offsets=False)
        return _split(ids.tolist(), rows, len(texts))

    def encode_with_offsets(self, texts):
        """Returns ids and offsets of each text."""
        ids, rows, *offsets = self.run(texts, with_offsets=True)
        spans = list(zip(*(array.tolist() for array in offsets), strict=True))
        both = (
            _split(ids.tolist(), rows, len(texts)),
            _split(spans, rows, len(texts)),
        )
        return list(zip(*both, strict=True))

    def differences(self, texts):
        """Returns the texts on which graph and tokenizer do not agree."""
        found = self.encode_with_offsets(texts)
        expected = map(self.tokenizer.encode_with_offsets, texts)
        return [
            (text, ours, theirs)
            for text, ours, theirs in zip(texts, found, expected, strict=True)
            if ours != theirs
        ]

    def id_differences(self, texts):
        """Likewise, without offsets, and faster."""
        ids, lengths = self.tokenizer.encode_batch(texts)
        expected = np.split(ids, np.cumsum(lengths)[:-1])
        found = self.encode(texts)
        return [
            (text, ours, theirs.tolist())
            for text, ours, theirs in zip(texts, found, expected, strict=True)
            if ours != theirs.tolist()
        ]


def _split(values, rows, num_rows):
    bounds = np.searchsorted(rows, np.arange(num_rows + 1)).tolist()
    return [values[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]


@pytest.fixture(scope="session")
def english(shared_data):
    """The released English vocabulary."""
    return GraphTokenizer(
        spm_model_file=str(shared_data / "data" / "spm" / "30k-clean.model")
    )


@pytest.fixture(scope="session")
def cased_english(shared_data):
    """The same, without lower-casing."""
    return GraphTokenizer(
        spm_model_file=str(shared_data / "data" / "spm" / "30k-clean.model"),
        do_lower_case=False,
    )


def _chinese_vocabulary(shared_data):
    folder = shared_data / "data" / "checkpoint_albert_base_zh_google"
    return str(folder / "vocab_chinese.txt")


@pytest.fixture(scope="session")
def chinese(shared_data):
    """The released Chinese vocabulary."""
    return GraphTokenizer(vocab_file=_chinese_vocabulary(shared_data))


@pytest.fixture(scope="session")
def cased_chinese(shared_data):
    """The same, without lower-casing."""
    return GraphTokenizer(
        vocab_file=_chinese_vocabulary(shared_data), do_lower_case=False
    )


@pytest.fixture(scope="session")
def tiny(tiny_spm_model):
    """A vocabulary that every machine can make."""
    return GraphTokenizer(spm_model_file=str(tiny_spm_model))


@pytest.fixture(scope="session")
def all_code_points():
    """Every code point once, in texts of 64."""
    characters = [chr(c) for c in range(NUM_CODE_POINTS) if c not in SURROGATES]
    return [
        "".join(characters[i : i + 64]) for i in range(0, len(characters), 64)
    ]


class TextMaker:
    """Draws texts from pools of characters that are hard on a tokenizer."""

    def __init__(self):
        assigned = [
            chr(c)
            for c in range(NUM_CODE_POINTS)
            if unicodedata.category(chr(c)) not in ("Cn", "Co", "Cs")
        ]
        marks = [c for c in assigned if unicodedata.combining(c)]
        spacing = [c for c in marks if unicodedata.category(c) != "Mn"]
        odd = ("Zs", "Zl", "Zp", "Cc", "Cf")
        self.pools = [
            assigned,
            marks,
            spacing + marks[:20],
            [chr(c) for c in range(0x1100, 0x1200)],
            [c for c in assigned if unicodedata.category(c) in odd],
            "'.:ΣσΑaΣΣ’·\u00ad\u0345\u0301 ",
            'eeeoaast()-£€"–,.123456789 ',
            "ＡⅣﬁ½İẞß①㍿¨ ´▁漢字0،\ufffd\0",
            ["the ", "ing", "25,", " and", "Tion", " 1,234, ", "##", "[MASK]"],
        ]

    def hard(self, rng):
        """A text of runs from several pools."""
        runs = []
        for _ in range(rng.randint(0, 12)):
            pool = rng.choice(self.pools)
            runs += rng.choices(pool, k=rng.randint(1, 6))
        return "".join(runs)

    def plain(self, rng):
        """A short text of any assigned characters."""
        return "".join(rng.choices(self.pools[0], k=rng.randint(0, 20)))

    def many(self, kind, number, seed):
        """A list of texts."""
        rng = random.Random(seed)
        return [getattr(self, kind)(rng) for _ in range(number)]


@pytest.fixture(scope="session")
def text_maker():
    return TextMaker()


@pytest.fixture(scope="session")
def graph_tokenizer():
    """Makes a `GraphTokenizer` of any vocabulary."""
    return GraphTokenizer
