"""Compares our ids with those that transformers makes of a written folder."""

import os

import numpy as np
import tokenizers

from albert_tf.checkpoints.checkpoint import Checkpoint, Note
from albert_tf.text import tokenizer_json
from albert_tf.text.base import Tokenizer

_NUM_SENTENCES = 300
_NUM_WORDS = 6  # of each kind, in a sentence
# What is normalized, or cut at marks, one way or another.
_WORDS = """
The U.S. naïve Zoë's (ABBA), half-time e.g. x25, ``so'' “no” "yes" it's — 15–1
$10,000 £3.5 €5 ½ ﬁne １２ 漢字。 한국어 हिन्दी Größe Ёлка ΣΑ 😀 1️⃣ a​b c­d
a_b@c.org #1 &
"""


def compare(folder: str, source: Checkpoint) -> list[Note]:
    """Returns a note on the ids of sentences, if it has a `tokenizer.json`."""
    path = os.path.join(folder, tokenizer_json.FILE_NAME)
    if not os.path.isfile(path):
        return []
    ours, theirs = source.tokenizer, tokenizers.Tokenizer.from_file(path)
    texts = sentences(ours)
    found = theirs.encode_batch(texts, add_special_tokens=False)
    different = [
        text
        for text, other in zip(texts, found, strict=True)
        if ours.encode(text) != other.ids
    ]
    example = f", such as those of {different[0]!r}" if different else ""
    text = (
        f"{len(texts)} sentences: the ids of {len(different)} differ{example}"
    )
    return [Note("compared", text)]


def sentences(tokenizer: Tokenizer) -> list[str]:
    """Returns sentences of `_WORDS`, words of the vocabulary, and a number."""
    rng = np.random.default_rng(0)
    starts = np.flatnonzero(tokenizer.word_starts)
    starts = np.setdiff1d(starts, tokenizer.forbidden_ids)
    texts = []
    for _ in range(_NUM_SENTENCES):
        known = map(tokenizer.id_to_token, rng.choice(starts, _NUM_WORDS))
        number = f"{rng.integers(10 ** rng.integers(1, 9)):,}"
        words = [*known, *rng.choice(_WORDS.split(), _NUM_WORDS), number]
        texts.append(" ".join(rng.permutation(words)).replace("▁", ""))
    return texts
