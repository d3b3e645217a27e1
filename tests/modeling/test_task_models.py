"""The models of tasks, against recorded numbers (tests/parity)."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import (
    BeamSpanModel,
    ClassifierModel,
    MultipleChoiceModel,
    SpanModel,
)
from albert_tf.modeling import losses
from tests.modeling.recorded import Recorded

_CLASSIFIER = functools.partial(ClassifierModel, num_labels=3)
# By the name of the recorded numbers.
_MODELS = {
    "classifier": _CLASSIFIER,
    "race": MultipleChoiceModel,
    "squad_v1": SpanModel,
    "squad_v2": BeamSpanModel,
    "squad_v2_short_paragraph": BeamSpanModel,
}


@pytest.mark.parametrize("name", _MODELS)
def test_a_compiled_graph_gives_the_recorded_outputs(name):
    recorded = Recorded(name)
    model = recorded.load(_MODELS[name](recorded.config))
    batch = recorded.inputs
    # As the pipeline hands it over: the lengths of the batch are not known.
    signature = {
        key: tf.TensorSpec([None] * array.ndim, array.dtype)
        for key, array in batch.items()
    }

    # XLA takes seconds for each: it gets the harder of the two with beams.
    @tf.function(jit_compile=name != "squad_v2", input_signature=[signature])
    def compiled(inputs):
        return model(inputs)

    recorded.assert_outputs(compiled(batch))


def _label_sums(sums_of, outputs, batch):
    labels = batch["label_ids"]
    return sums_of(outputs["logits"], labels, np.ones(len(labels), "f"))


def _span_sums(outputs, batch):
    starts, ends = batch["start_positions"], batch["end_positions"]
    return losses.span_sums(outputs, starts, ends, np.ones(4, "f"))


def _beam_span_sums(outputs, batch):
    return losses.beam_span_sums(outputs, batch, np.ones(4, "f"))


_classes = functools.partial(_label_sums, losses.weighted_sums)
_numbers = functools.partial(_label_sums, losses.regression_sums)


@pytest.mark.parametrize(
    ("name", "make", "sums_of", "prefix"),
    [
        ("classifier", _CLASSIFIER, _classes, ""),
        (
            "regression",
            functools.partial(ClassifierModel, num_labels=1),
            _numbers,
            "",
        ),
        ("race", MultipleChoiceModel, _classes, ""),
        ("squad_v1", SpanModel, _span_sums, ""),
        (
            "squad_v2",
            functools.partial(BeamSpanModel, dropout_prob=0.0),
            _beam_span_sums,
            "train/",
        ),
    ],
)
def test_outputs_loss_and_gradients_in_training_equal_the_recorded_ones(
    name, make, sums_of, prefix, fusion
):
    recorded = Recorded(name)
    model = recorded.load(make(recorded.config))
    options = {}
    if prefix:  # As the config drops nothing, neither does training.
        options = {"training": True, "seed": np.zeros(2, "int32")}
    batch = recorded.inputs if name == "race" else recorded.batch
    inputs = model.inputs_of(batch)

    def loss():
        outputs = model(inputs, fusion=fusion, **options)
        sums = sums_of(outputs, recorded.batch)
        return sums.loss / sums.weight

    for key, values in model(inputs, fusion=fusion, **options).items():
        wanted = recorded.numbers[prefix + key]
        recorded.assert_close(tf.reshape(values, wanted.shape), prefix + key)
    recorded.assert_close(loss(), f"{prefix}loss")
    recorded.assert_gradients(model, loss, norm=f"{prefix}grad_global_norm")
