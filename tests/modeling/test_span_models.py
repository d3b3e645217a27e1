import keras
import numpy as np

from albert_tf.modeling.span_models import BeamSpanModel


def test_the_head_computes_in_float32_whatever_the_global_policy(tiny_config):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = BeamSpanModel(tiny_config)
    finally:
        keras.config.set_dtype_policy(before)

    assert model.albert.compute_dtype == "bfloat16"
    head = model.beam_span_head
    for layer in (head, head.start_dense, head.end_dense_0, head.end_dense_1):
        assert layer.compute_dtype == "float32"


def test_the_loss_can_be_asked_for_without_dropout(tiny_config, tiny_batch):
    model = BeamSpanModel(tiny_config, dropout_prob=0.5)
    outputs = model(tiny_batch, training=False, teacher_forcing=True)

    plain = BeamSpanModel(tiny_config, dropout_prob=0.0)
    expected = plain(tiny_batch, training=True, seed=np.zeros(2, "int32"))
    assert set(outputs) == {"start_log_probs", "end_log_probs", "cls_logits"}
    for name, array in expected.items():
        np.testing.assert_allclose(outputs[name], array, rtol=1e-5, atol=1e-6)
