"""What all models with the head of a task have in common.

Their losses and gradients are tested beside each model.
"""

import pytest
import tensorflow as tf

from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel
from tests.modeling.recorded import Recorded


def _classifier(config, **arguments):
    return ClassifierModel(config, num_labels=3, **arguments)


# By the name of the recorded numbers.
_MODELS = {
    "classifier": _classifier,
    "race": MultipleChoiceModel,
    "squad_v1": SpanModel,
    "squad_v2": BeamSpanModel,
    "squad_v2_short_paragraph": BeamSpanModel,
}


@pytest.fixture(params=_MODELS)
def name(request):
    return request.param


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
