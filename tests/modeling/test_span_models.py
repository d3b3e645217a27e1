import keras

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
