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
from albert_tf.checkpoints import beside, checkpoint, metadata
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import CONFIG_FILE
from albert_tf.serving.exported_encoder import ExportedWeights
from albert_tf.serving.signature import Tensors
from albert_tf.tasks import table
from albert_tf.training import run_folder


def convert(function: Any, weights: ExportedWeights, quantizes: bool) -> bytes:
    """Converts a signature of ids: content of a `.tflite` file.

    Inputs and outputs keep their names; batch and length are dynamic. Only
    LiteRT's own operations are used.
    """
    module = tf.Module()
    module.weights = weights.copies
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [function], module
    )
    if quantizes:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    with without_progress_messages():
        return bytes(converter.convert())


def write(
    folder: str, content: bytes, source: Checkpoint, settings: Mapping[str, Any]
) -> None:
    """Writes a file, and beside it what `load_predictor` needs.

    `source` has config, vocabulary and metadata; `settings` are those of the
    fine-tuning and of the export.
    """
    with files.atomic_write(os.path.join(folder, beside.LITERT_FILE)) as file:
        file.write(content)
    checkpoint.known_config(source).to_json_file(
        os.path.join(folder, CONFIG_FILE)
    )
    checkpoint.write_vocabulary(source, folder)
    metadata.write(folder, source.metadata)
    files.write_json(
        os.path.join(folder, run_folder.FINGERPRINT_FILE),
        {run_folder.SETTINGS: dict(settings)},
    )


class LiteRtModel:
    """Computes the outputs of an export, as the Keras model does.

    Attributes:
        head: The kind of model, as in `load_model`.
        num_outputs: Size of the last axis of its main output: K of logits.
    """

    def __init__(self, folder: files.Path) -> None:
        path = os.path.join(folder, beside.LITERT_FILE)
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
        known = metadata.read(folder)
        # Older exports do not say it.
        self.head = known.head or table.head_of_outputs(self._outputs)
        main_output = table.spec_of(self.head).main_output
        self.num_outputs = self._outputs[main_output].shape[-1]
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
