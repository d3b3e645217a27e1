import dataclasses

import numpy as np

from albert_tf.checkpoints import variable_names, verification
from albert_tf.modeling.beam_span_model import BeamSpanModel


def _with(source, **arrays):
    return dataclasses.replace(source, arrays=dict(source.arrays) | arrays)


def test_equal_weights_differ_by_nothing(source):
    found = verification.differences(source, source)

    assert found == dict.fromkeys(
        [
            "sequence_output",
            "pooled_output",
            "masked_lm_logits",
            "sentence_order_logits",
        ],
        0.0,
    )


def test_a_difference_is_seen_in_the_output_that_it_touches(source):
    name = "cls/seq_relationship/output_bias"
    changed = _with(source, **{name: source.arrays[name] + 0.5})

    found = verification.differences(source, changed)

    np.testing.assert_allclose(found.pop("sentence_order_logits"), 0.5)
    assert set(found.values()) == {0.0}


def test_task_heads_are_outputs_too(source):
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((3, 8), "float32")
    heads = {
        "output_weights": weights,
        "output_bias": np.arange(3, dtype="float32"),
        "cls/squad/output_weights": weights[:2],
        "cls/squad/output_bias": np.zeros(2, "float32"),
    }

    spans = BeamSpanModel(source.config)
    named = variable_names.variables_by_tf1_name(spans.weights)
    heads |= {
        name: np.asarray(variable)
        for name, variable in named.items()
        if variable_names.is_head(name)
    }

    outputs = verification.outputs(_with(source, **heads))

    for name in ("start_log_probs", "end_log_probs"):
        np.testing.assert_allclose(
            np.exp(outputs[name]).sum(axis=1), 1, rtol=1e-5
        )
    assert outputs["cls_logits"].shape == (2,)
    expected = outputs["pooled_output"] @ weights.T + np.arange(3)
    np.testing.assert_allclose(outputs["task_logits"], expected, rtol=1e-6)
    assert outputs["span_logits"].shape == (2, 7, 2)


def test_a_model_without_a_pooler_has_what_does_not_need_it(source):
    kept = {n: a for n, a in source.arrays.items() if "pooler" not in n}

    outputs = verification.outputs(dataclasses.replace(source, arrays=kept))

    assert set(outputs) == {"sequence_output", "masked_lm_logits"}
