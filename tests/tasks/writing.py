"""Writes the predictions of a data half."""

import os

from albert_tf.metrics.scores import Scores


def write_predictions(data, examples, outputs, folder, scores=None):
    """Writes all examples at once; returns the names of the files."""
    with data.open_predictions(str(folder), scores or Scores()) as write:
        write(examples, outputs)
    return sorted(os.listdir(folder))
