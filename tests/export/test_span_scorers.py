import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import span_scorers
from albert_tf.export.exported_encoder import ServedWeights
from albert_tf.export.span_scorers import BeamScorer, LogitScorer
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel
from albert_tf.tasks.squad.predictions import SpanLimits

SEPARATOR = 3
IDS = np.array([[2, 7, 3, 8, 9, 10, 3, 0], [2, 3, 8, 3, 0, 0, 0, 0]], np.int32)
MASK = (IDS > 0).astype(np.int32)
SEGMENTS = np.array([[0] * 3 + [1] * 4 + [0], [0] * 2 + [1] * 2 + [0] * 4])
BATCH = {
    "input_ids": IDS,
    "input_mask": MASK,
    "segment_ids": SEGMENTS.astype(np.int32),
}
FORBIDDEN = [[0, 1, 1, 0, 0, 0, 1, 1], [0, 1, 0, 1, 1, 1, 1, 1]]


def tensors():
    return {name: tf.constant(values) for name, values in BATCH.items()}


def weights_of(model):
    return ServedWeights(model.weights, precision="float32")


def test_logits_are_those_of_the_model(tiny_config):
    model = SpanModel(tiny_config)
    scorer = LogitScorer(model, weights_of(model))

    found = scorer.outputs(**tensors())

    expected = model(BATCH)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-6)
    assert scorer.null_scores(found).numpy().tolist() == [0, 0]


def test_padding_is_never_among_the_likeliest(tiny_config):
    model = SpanModel(tiny_config)
    scorer = LogitScorer(model, weights_of(model))
    logits = tf.constant([[0.0, 1, 2, 3, 9, 9, 9, 9]] * 2)
    outputs = {"start_logits": logits, "end_logits": logits}

    likeliest, every = scorer.spans(
        outputs, tf.constant(MASK), SpanLimits(n_best_size=2)
    )

    assert set(likeliest.starts[1].numpy()) == {2, 3}
    assert set(every.starts[1].numpy()) == set(range(8))


def test_beams_are_those_of_the_model(tiny_config):
    model = BeamSpanModel(tiny_config, start_n_top=2, end_n_top=3)
    scorer = BeamScorer(model, weights_of(model), SEPARATOR)

    found = scorer.outputs(**tensors())

    expected = model(BATCH | {"p_mask": np.array(FORBIDDEN, np.float32)})
    assert scorer.min_length == 3
    assert set(found) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-5)
    (spans,) = scorer.spans(found, tf.constant(MASK), SpanLimits())
    assert spans.scores.shape == (2, 6)
    np.testing.assert_array_equal(
        scorer.null_scores(found), found["cls_logits"]
    )


@pytest.mark.parametrize("row", [0, 1])
def test_the_context_and_the_first_place_are_allowed(row):
    found = span_scorers.forbidden_places(**tensors(), separator_id=SEPARATOR)

    assert found[row].numpy().tolist() == FORBIDDEN[row]
