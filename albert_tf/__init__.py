"""ALBERT (Lan et al. 2020) in Keras 3 on TensorFlow.

The public names below are imported on first use, so that importing this
package, or asking a script for `--help`, does not import TensorFlow.
"""

import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from albert_tf.checkpoints.discovery import load_tokenizer
    from albert_tf.checkpoints.load import load_checkpoint, load_model
    from albert_tf.config import AlbertConfig
    from albert_tf.inference.predictor import Predictor, load_predictor
    from albert_tf.metrics.scores import Score, Scores
    from albert_tf.modeling.albert_model import AlbertModel
    from albert_tf.modeling.pretraining_model import PretrainingModel
    from albert_tf.modeling.sequence_models import (
        ClassifierModel,
        MultipleChoiceModel,
        TokenClassifierModel,
    )
    from albert_tf.modeling.span_models import BeamSpanModel, SpanModel
    from albert_tf.serving.tokenizer_layer import TokenizerLayer
    from albert_tf.tasks.pooled.head import PooledHead
    from albert_tf.tasks.spec import HeadSpec
    from albert_tf.training.callbacks import Callback
    from albert_tf.training.interface import RunResult, finetune, pretrain
    from albert_tf.training.loop import TrainingDiverged

__all__ = [
    "AlbertConfig",
    "AlbertModel",
    "BeamSpanModel",
    "Callback",
    "ClassifierModel",
    "HeadSpec",
    "MultipleChoiceModel",
    "PooledHead",
    "Predictor",
    "PretrainingModel",
    "RunResult",
    "Score",
    "Scores",
    "SpanModel",
    "TokenClassifierModel",
    "TokenizerLayer",
    "TrainingDiverged",
    "finetune",
    "load_checkpoint",
    "load_model",
    "load_predictor",
    "load_tokenizer",
    "pretrain",
]

_MODULES = {
    "AlbertConfig": "albert_tf.config",
    "AlbertModel": "albert_tf.modeling.albert_model",
    "BeamSpanModel": "albert_tf.modeling.span_models",
    "Callback": "albert_tf.training.callbacks",
    "ClassifierModel": "albert_tf.modeling.sequence_models",
    "HeadSpec": "albert_tf.tasks.spec",
    "MultipleChoiceModel": "albert_tf.modeling.sequence_models",
    "PooledHead": "albert_tf.tasks.pooled.head",
    "Predictor": "albert_tf.inference.predictor",
    "PretrainingModel": "albert_tf.modeling.pretraining_model",
    "RunResult": "albert_tf.training.interface",
    "Score": "albert_tf.metrics.scores",
    "Scores": "albert_tf.metrics.scores",
    "SpanModel": "albert_tf.modeling.span_models",
    "TokenClassifierModel": "albert_tf.modeling.sequence_models",
    "TokenizerLayer": "albert_tf.serving.tokenizer_layer",
    "TrainingDiverged": "albert_tf.training.loop",
    "finetune": "albert_tf.training.interface",
    "load_checkpoint": "albert_tf.checkpoints.load",
    "load_model": "albert_tf.checkpoints.load",
    "load_predictor": "albert_tf.inference.predictor",
    "load_tokenizer": "albert_tf.checkpoints.discovery",
    "pretrain": "albert_tf.training.interface",
}
if not importlib.util.find_spec("tensorflow"):
    # The default engine of Keras is missing.
    _others = filter(importlib.util.find_spec, ("jax", "torch"))
    os.environ.setdefault("KERAS_BACKEND", next(_others, "tensorflow"))


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("albert-tf")
    if name not in _MODULES:
        raise AttributeError(
            f"module 'albert_tf' has no attribute {name!r}. Public names: "
            f"{', '.join(__all__)}."
        )
    try:
        value = getattr(importlib.import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        from albert_tf import console

        error.msg = console.one_line(error)
        raise
    globals()[name] = value  # The next access does not come here.
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
