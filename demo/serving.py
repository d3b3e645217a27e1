"""Asks the demo's exported models in raw text, with TensorFlow and its Text.

Data flow: folders of SavedModels -> [this file] -> texts and answers.
"""

import os
from typing import Any

import tensorflow as tf
import tensorflow_text  # noqa: F401  The operations of the tokenizers.

from albert_tf import files

BLANKS = (
    "Returns a [MASK] of strings.",
    "This class is [MASK] to compute the mean.",
)
REVIEWS = ("The debugger is reliable.", "The manual is not clear.")
NUM_GUESSES = 3


def answers(
    *, encoder_dir: files.Path, classifier_dir: files.Path
) -> list[tuple[str, str]]:
    """Returns texts with the answers of the newest exported versions."""
    fill_mask = load(encoder_dir).signatures["fill_mask"]
    found = fill_mask(text=tf.constant(BLANKS))
    # [texts, masks of a text, guesses]; each text has one mask.
    tokens = found["top_tokens"].numpy()[:, 0, :NUM_GUESSES]
    chances = found["top_probabilities"].numpy()[:, 0, :NUM_GUESSES]
    guesses = [
        ", ".join(map(_shown, *row))
        for row in zip(tokens, chances, strict=True)
    ]
    classify = load(classifier_dir).signatures["serving_default"]
    texts = tf.constant(REVIEWS)
    found = classify(text_a=texts, text_b=tf.zeros_like(texts))
    labels = found["prediction"].numpy()
    chances = found["probabilities"].numpy().max(axis=-1)
    return [
        *zip(BLANKS, guesses, strict=True),
        *zip(REVIEWS, map(_shown, labels, chances), strict=True),
    ]


def load(folder: files.Path) -> Any:
    """Returns the newest exported version in a folder, ready to be asked."""
    versions = [name for name in os.listdir(folder) if name.isdigit()]
    return tf.saved_model.load(os.path.join(folder, max(versions, key=int)))


def _shown(answer: bytes, chance: float) -> str:
    # A token that begins a word begins with "▁".
    return f"{answer.decode().lstrip('▁')} ({chance:.0%})"
