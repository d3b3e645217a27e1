"""An export of LiteRT or ONNX in the place of a Keras model."""

import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from albert_tf import quiet
from albert_tf.checkpoints import exported
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.modeling import base_model

Arrays: TypeAlias = dict[str, np.ndarray]
_POSITIONS = "masked_lm_positions"
# Our outputs, and the names that transformers gives to them.
THEIR_OUTPUTS = {
    "sequence_output": "last_hidden_state",
    "pooled_output": "pooler_output",
    "masked_lm_logits": "logits",
    "sentence_order_logits": "sop_logits",
}


def load(checkpoint: Checkpoint) -> "ExportedModel":
    """Loads the model of an export."""
    kind = LiteRtModel if checkpoint.format == exported.LITERT else OnnxModel
    return kind(exported.exported_model(checkpoint.path, checkpoint.format))


class ExportedModel:
    """Computes the outputs of an export, as the Keras model does."""

    # Of the outputs by name; what varies is no number.
    shapes: Mapping[str, Sequence[int]]

    @property
    def num_labels(self) -> int:
        """Of a classifier, the number of its logits, K."""
        return int(self.shapes["logits"][-1])

    def inputs_of(self, batch: Arrays) -> Arrays:
        """Returns all arrays of a batch; the call takes what it needs."""
        return {**batch}


class LiteRtModel(ExportedModel):
    """Runs a file of LiteRT."""

    def __init__(self, path: str | None) -> None:
        import tensorflow as tf

        with warnings.catch_warnings(), quiet.hidden():
            # It is announced that the class moves to a package of its own.
            warnings.simplefilter("ignore")
            self._interpreter = tf.lite.Interpreter(
                path, num_threads=len(os.sched_getaffinity(0))
            )
            self._interpreter.allocate_tensors()  # It prints.
            self._run = self._interpreter.get_signature_runner()
        self._names = [*self._run.get_input_details()]
        self.shapes = {
            name: details["shape_signature"].tolist()
            for name, details in self._run.get_output_details().items()
        }
        # An interpreter computes one batch at a time.
        self._lock = threading.Lock()

    @property
    def start_n_top(self) -> int:
        """Of SQuAD 2.0, the beam size for start positions."""
        return int(self.shapes["start_top_index"][-1])

    @property
    def end_n_top(self) -> int:
        """Of SQuAD 2.0, the beam size for end positions, per start position."""
        return int(self.shapes["end_top_index"][-1]) // self.start_n_top

    def __call__(self, batch: Arrays, **_: object) -> Arrays:
        """Returns the outputs of a batch, by name."""
        inputs = {name: np.asarray(batch[name]) for name in self._names}
        with self._lock:
            return dict(self._run(**inputs))


class OnnxModel(ExportedModel):
    """Runs a file of ONNX, with the names of transformers."""

    def __init__(self, path: str | None) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        self._session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        self._names = [each.name for each in self._session.get_inputs()]
        self.shapes = {o.name: o.shape for o in self._session.get_outputs()}
        self.objectives = [
            objective
            for objective, name in (("mlm", "logits"), ("sop", "sop_logits"))
            if name in self.shapes
        ]

    def __call__(self, batch: Arrays, **_: object) -> Arrays:
        """Returns the outputs of a batch, by our names.

        Where masks have positions, the masked LM has the logits of them alone.
        """
        names = base_model.OUR_NAMES
        inputs = {
            name: np.asarray(batch[names.get(name, name)], np.int64)
            for name in self._names
        }
        arrays = self._session.run([*self.shapes], inputs)
        outputs = dict(zip(self.shapes, arrays, strict=True))
        if "mlm" in self.objectives and _POSITIONS in batch:
            positions = np.asarray(batch[_POSITIONS], np.int64)[..., None]
            outputs["masked_lm_logits"] = np.take_along_axis(
                outputs.pop("logits"), positions, axis=1
            )
        our_names = {x: name for name, x in THEIR_OUTPUTS.items()}
        # The logits of classifiers and of masks are both `logits` there.
        del our_names["logits"]
        return {our_names.get(name, name): x for name, x in outputs.items()}
