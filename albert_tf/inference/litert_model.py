"""An export of LiteRT in the place of a Keras model."""

import os
import threading
import warnings
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf import quiet
from albert_tf.checkpoints import discovery
from albert_tf.checkpoints.checkpoint import Checkpoint


class LiteRtModel:
    """Computes the outputs of an export, as the Keras model does."""

    def __init__(self, source: Checkpoint) -> None:
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
        self._outputs = {}
        for name, details in self._run.get_output_details().items():
            sizes = details["shape_signature"].tolist()
            shape = [None if size < 0 else size for size in sizes]
            self._outputs[name] = tf.TensorSpec(shape, details["dtype"])
        # An interpreter computes one batch at a time.
        self._lock = threading.Lock()

    @property
    def start_n_top(self) -> int:
        """Of SQuAD 2.0, the beam size for start positions."""
        return int(self._outputs["start_top_index"].shape[-1])

    @property
    def end_n_top(self) -> int:
        """Of SQuAD 2.0, that for end positions, per start position."""
        return int(self._outputs["end_top_index"].shape[-1]) // self.start_n_top

    @property
    def num_labels(self) -> int:
        """Of a classifier, the number of its logits, K."""
        return int(self._outputs["logits"].shape[-1])

    def inputs_of(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns those arrays of a batch that the model takes."""
        return {name: batch[name] for name in self._inputs}

    def __call__(
        self, batch: Mapping[str, tf.Tensor], training: bool = False
    ) -> dict[str, tf.Tensor]:
        """Returns the outputs of a batch, by name."""
        del training
        values = tf.numpy_function(
            self._compute,
            [batch[name] for name in self._inputs],
            [spec.dtype for spec in self._outputs.values()],
            stateful=False,
        )
        return {
            name: tf.ensure_shape(value, self._outputs[name].shape)
            for name, value in zip(self._outputs, values, strict=True)
        }

    def _compute(self, *values: Any) -> list[Any]:
        with self._lock:
            outputs = self._run(**dict(zip(self._inputs, values, strict=True)))
        return [outputs[name] for name in self._outputs]
