"""Exports in LiteRT's format, and such an export in the place of a model.

The file takes ids, because LiteRT has no tokenizers. Beside it is what
`load_predictor` needs to make ids of texts, and answers of outputs.

In int8, the matrices of linear layers have a scale for each output, and their
inputs one for each token, found when the model runs: what varies from text to
text, and from pass to pass through the shared block, needs no calibration. The
table of words has one scale. Everything else is float32.
"""

import contextlib
import logging
import os
import threading
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import litert_folder
from albert_tf.export.signature import Tensors

# By the name of an output: the kind of model, as in `load_model`.
_HEADS = {
    "logits": "classifier",
    "start_logits": "span",
    "cls_logits": "beam_span",
    "sequence_output": "encoder",
}


def convert(function: Any, module: tf.Module, *, quantizes: bool) -> bytes:
    """Converts a signature of ids: content of a `.tflite` file.

    Inputs and outputs keep their names; batch and length are dynamic. Only
    LiteRT's own operations are used. `module` holds the weights.
    """
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [function], module
    )
    if quantizes:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    with without_progress_messages():
        return bytes(converter.convert())


class LiteRtModel:
    """Computes the outputs of an export, as the Keras model does.

    Attributes:
        head: The kind of model, as in `load_model`.
        num_outputs: Size of the last axis of its main output: K of logits.
    """

    def __init__(self, folder: files.Path) -> None:
        path = os.path.join(folder, litert_folder.MODEL_FILE)
        with warnings.catch_warnings():
            # It is announced that the class moves to a package of its own.
            warnings.simplefilter("ignore")
            self._interpreter = tf.lite.Interpreter(
                path, num_threads=len(os.sched_getaffinity(0))
            )
        self._run = self._interpreter.get_signature_runner()
        self._inputs = [*self._run.get_input_details()]
        details = self._run.get_output_details()
        self._outputs = {
            name: tf.TensorSpec(
                [None if size < 0 else size for size in one["shape_signature"]],
                one["dtype"],
            )
            for name, one in details.items()
        }
        [name] = self._outputs.keys() & _HEADS
        self.head = _HEADS[name]
        self.num_outputs = self._outputs[name].shape[-1]
        # An interpreter computes one batch at a time.
        self._lock = threading.Lock()

    def __call__(
        self, batch: Mapping[str, tf.Tensor], training: bool = False
    ) -> Tensors:
        """Returns the outputs of a batch, by name."""
        del training
        values = tf.numpy_function(
            self._compute,
            [batch[name] for name in self._inputs],
            [spec.dtype for spec in self._outputs.values()],
            stateful=False,
        )
        return {
            name: tf.ensure_shape(value, spec.shape)
            for value, (name, spec) in zip(
                values, self._outputs.items(), strict=True
            )
        }

    def _compute(self, *values: Any) -> list[Any]:
        with self._lock:
            outputs = self._run(**dict(zip(self._inputs, values, strict=True)))
        return [outputs[name] for name in self._outputs]


@contextlib.contextmanager
def without_progress_messages() -> Iterator[None]:
    """Suppresses TensorFlow's messages about every file that it writes."""
    disabled = logging.root.manager.disable
    logging.disable(max(disabled, logging.INFO))
    try:
        yield
    finally:
        logging.disable(disabled)
