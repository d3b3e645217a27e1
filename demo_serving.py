"""Asks the demo's exported models in raw text, with TensorFlow alone.

Data flow: folders of SavedModels -> [this file] -> lines to print.
Floor: scripts; for `demo.py`.
"""

import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

BLANK = "The [MASK] of an object can be changed."
REVIEWS = (
    "The debugger is reliable.",
    "The manual is not clear.",
)
NUM_GUESSES = 3


def answers(*, encoder_dir: str, classifier_dir: str) -> Iterator[str]:
    """Yields questions with the answers of the newest exported versions.

    Args:
        encoder_dir: Holds the exported versions of a pretrained model.
        classifier_dir: Holds those of a classifier of reviews.
    """
    fill_mask = load(encoder_dir).signatures["fill_mask"]
    found = fill_mask(text=tf.constant([BLANK]))
    tokens = found["top_pieces"].numpy()[0, 0, :NUM_GUESSES]
    chances = found["top_probabilities"].numpy()[0, 0, :NUM_GUESSES]
    guesses = ", ".join(
        f"{token.decode()} ({chance:.0%})"
        for token, chance in zip(tokens, chances, strict=True)
    )
    yield f"{BLANK!r}: {guesses}"
    classify = load(classifier_dir).signatures["serving_default"]
    texts = tf.constant(REVIEWS)
    found = classify(text_a=texts, text_b=tf.zeros_like(texts))
    for review, label, chances in zip(
        REVIEWS,
        found["prediction"].numpy(),
        found["probabilities"].numpy(),
        strict=True,
    ):
        yield f"{review!r}: {label.decode()} ({max(chances):.0%})"


def load(folder: str) -> Any:
    """Returns the newest exported version in a folder, ready to be asked."""
    versions = [name for name in os.listdir(folder) if name.isdigit()]
    return tf.saved_model.load(os.path.join(folder, max(versions, key=int)))
