import numpy as np
import pytest

from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.export import exported_tasks
from albert_tf.export.export_config import ExportConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel

TASK = {"output_weights": (3, 16), "output_bias": (3,)}
ONE_OUTPUT = {"output_weights": (1, 16), "output_bias": (1,)}


def make(task, shapes, config, **values):
    source = Checkpoint(arrays={n: np.zeros(s) for n, s in shapes.items()})
    settings = ExportConfig(
        init_checkpoint="run", export_dir="b", task=task, **values
    )
    return exported_tasks.make_model(settings, source, config)


@pytest.mark.parametrize(
    ("task", "shapes", "model_class"),
    [
        ("encoder", {}, AlbertModel),
        ("encoder", TASK, AlbertModel),
        ("encoder", {"cls/predictions/output_bias": (1,)}, PretrainingModel),
        ("classifier", TASK, ClassifierModel),
        ("race", ONE_OUTPUT, MultipleChoiceModel),
        ("squad", {"cls/squad/output_bias": (2,)}, SpanModel),
        ("squad", {"start_logits/dense/bias": (1,)}, BeamSpanModel),
    ],
)
def test_the_heads_of_the_checkpoint_decide(
    task, shapes, model_class, tiny_config
):
    assert type(make(task, shapes, tiny_config)) is model_class


@pytest.mark.parametrize(
    ("task", "shapes", "values", "words"),
    [
        ("classifier", {}, {}, "no head for --task=classifier.*Received: none"),
        ("squad", TASK, {}, "Expected: cls/squad or beam. Received: task"),
        ("race", TASK, {}, "has 3 outputs, a multiple-choice model has 1"),
        (
            "squad",
            {"start_logits/dense/bias": (1,)},
            {"tflite": True},
            "`tflite` is available for version 1.1 of SQuAD",
        ),
        (
            "squad",
            {"start_logits/dense/bias": (1,)},
            {"end_n_top": 0},
            "`end_n_top` must be .* at least 1",
        ),
        (
            "squad",
            {"start_logits/dense/bias": (1,)},
            {"null_from_cls": True},
            "`null_from_cls` is for heads of two logits.*Leave it out",
        ),
    ],
)
def test_checkpoints_and_settings_that_do_not_fit_the_task(
    task, shapes, values, words, tiny_config
):
    with pytest.raises(ValueError, match=words):
        make(task, shapes, tiny_config, **values)
