"""Compares our ids with those that transformers makes of a written folder."""

import os
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import tokenizers

from albert_tf import files
from albert_tf.checkpoints import checkpoint, huggingface_tokenizer
from albert_tf.checkpoints.checkpoint import Note
from albert_tf.text import tokenizer_json
from albert_tf.text.base import Tokenizer

_NUM_SENTENCES = 300
_NUM_WORDS = 6  # of each kind, in a sentence
# What is normalized, or cut at marks, one way or another.
_WORDS = """
The U.S. naïve Zoë's (ABBA), half-time e.g. x25, ``so'' “no” "yes" it's — 15–1
$10,000 £3.5 €5 ½ ﬁne １２ 漢字。 한국어 हिन्दी Größe Ёлка ΣΑ 😀 1️⃣ a​b c­d
a_b@c.org #1 & ボール がっこう mạ İzmir
"""
_NUMBER_COMMA = re.compile(r"\S*\d,\S*")


def compare(tokenizer: Tokenizer, folders: Iterable[str]) -> list[Note]:
    """Compares the ids of sentences with those of folders of transformers.

    Returns a note on each folder that says how to make ids. Other ids than
    docs/differences.md explains are an error.
    """
    texts, notes = sentences(tokenizer), []
    for folder in folders:
        theirs = _their_tokenizer(folder)
        if theirs is None:
            continue
        different = _different(tokenizer, theirs, texts)
        text = f"{len(texts)} sentences: the ids of {len(different)} differ"
        text += f", such as those of {different[0]!r}" if different else ""
        notes.append(Note("compared", text))
        others = [_NUMBER_COMMA.sub("", one) for one in different]
        if _different(tokenizer, theirs, others):
            raise ValueError(
                "transformers gives other ids than the checkpoint has: "
                f"{text}. The output was removed."
            )
    return notes


def _different(
    tokenizer: Tokenizer, theirs: Any, texts: list[str]
) -> list[str]:
    found = theirs.encode_batch(texts, add_special_tokens=False)
    rows = zip(texts, found, strict=True)
    return [text for text, row in rows if tokenizer.encode(text) != row.ids]


def _their_tokenizer(folder: str) -> Any:
    """Returns what transformers makes of a folder, but of SentencePiece."""
    path = os.path.join(folder, tokenizer_json.FILE_NAME)
    if os.path.isfile(path):
        return tokenizers.Tokenizer.from_file(path)
    path = os.path.join(folder, checkpoint.WORDPIECE_FILE)
    if not os.path.isfile(path):
        return None
    config_file = os.path.join(folder, huggingface_tokenizer.CONFIG_FILE)
    config = files.read_json_object(config_file, missing_ok=True)
    made = tokenizers.BertWordPieceTokenizer(
        path,
        lowercase=config.get("do_lower_case", True),
        strip_accents=config.get("strip_accents"),
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
    )
    for token in config.get("added_tokens_decoder", {}).values():
        made.add_tokens([tokenizers.AddedToken(**token)])
    return made


def sentences(tokenizer: Tokenizer) -> list[str]:
    """Returns sentences of `_WORDS`, words of the vocabulary, and a number."""
    rng = np.random.default_rng(0)
    starts = np.flatnonzero(tokenizer.word_starts)
    starts = np.setdiff1d(starts, tokenizer.forbidden_ids)
    own_words = _WORDS.split()
    for name in tokenizer.settings.added_tokens:
        own_words += [name, name.upper(), name.capitalize()]
    texts = []
    for _ in range(_NUM_SENTENCES):
        known = map(tokenizer.id_to_token, rng.choice(starts, _NUM_WORDS))
        number = f"{rng.integers(10 ** rng.integers(1, 9)):,}"
        words = [*known, *rng.choice(own_words, _NUM_WORDS), number]
        texts.append(" ".join(rng.permutation(words)).replace("▁", ""))
    return texts
