"""An export of LiteRT in the place of a Keras model."""

import os
import threading
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf import quiet
from albert_tf.checkpoints import discovery
from albert_tf.checkpoints.checkpoint import Checkpoint


class LiteRtModel:
    """Computes the outputs of an export, as the Keras model does."""

    def __init__(self, source: Checkpoint) -> None:
        import tensorflow as tf

        path = os.path.join(source.path, discovery.LITERT_MODEL)
        with warnings.catch_warnings(), quiet.hidden():
            # It is announced that the class moves to a package of its own.
            warnings.simplefilter("ignore")
            self._interpreter = tf.lite.Interpreter(
                path, num_threads=len(os.sched_getaffinity(0))
            )
            self._interpreter.allocate_tensors()  # It prints.
            self._run = self._interpreter.get_signature_runner()
        self._inputs = [*self._run.get_input_details()]
        self._shapes = {
            name: details["shape_signature"].tolist()
            for name, details in self._run.get_output_details().items()
        }
        # An interpreter computes one batch at a time.
        self._lock = threading.Lock()

    @property
    def start_n_top(self) -> int:
        """Of SQuAD 2.0, the beam size for start positions."""
        return int(self._shapes["start_top_index"][-1])

    @property
    def end_n_top(self) -> int:
        """Of SQuAD 2.0, that for end positions, per start position."""
        return int(self._shapes["end_top_index"][-1]) // self.start_n_top

    @property
    def num_labels(self) -> int:
        """Of a classifier, the number of its logits, K."""
        return int(self._shapes["logits"][-1])

    def inputs_of(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns those arrays of a batch that the model takes."""
        return {name: batch[name] for name in self._inputs}

    def __call__(
        self, batch: Mapping[str, np.ndarray], training: bool = False
    ) -> dict[str, np.ndarray]:
        """Returns the outputs of a batch, by name."""
        del training
        values = {name: np.asarray(batch[name]) for name in self._inputs}
        with self._lock:
            outputs: dict[str, np.ndarray] = self._run(**values)
        return outputs
