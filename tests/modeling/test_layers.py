import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling import fused, layers
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.attention import AttentionSublayer
from albert_tf.modeling.fused import computing_with
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import ClassifierModel
from albert_tf.modeling.span_models import BeamSpanModel
from tests import tiny


def test_values_are_cut_at_two_deviations_and_not_rescaled():
    initializer = layers.truncated_normal(0.5, seed=3, name="kernel")

    values = np.asarray(initializer((200, 500)))

    # A normal distribution cut at 2 sigma has 0.8796 of its deviation.
    assert np.abs(values).max() <= 1.0
    np.testing.assert_allclose(values.std(), 0.5 * 0.8796, rtol=0.01)
    np.testing.assert_allclose(values.mean(), 0.0, atol=0.01)


def test_dense_has_a_seeded_kernel_and_no_bias_at_first(tiny_config):
    parent = AttentionSublayer(tiny_config, seed=5, dtype="mixed_bfloat16")
    built = [
        layers.dense(parent, name, 20, 300)
        for name in ("query", "query", "key")
    ]
    for layer in built:
        layer.build((None, 20))

    first, again, other = (np.asarray(layer.kernel) for layer in built)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    # The deviation of the config, 0.5, cut as above; that of heads is 0.02.
    np.testing.assert_allclose(first.std(), 0.5 * 0.8796, rtol=0.03)
    head = layers.output_layer(parent, "head", 500)
    head.build()
    deviation = np.asarray(head.output_weights).std()
    np.testing.assert_allclose(deviation, 0.02 * 0.8796, rtol=0.03)
    np.testing.assert_array_equal(built[0].bias, np.zeros(300))
    assert built[0].compute_dtype == "bfloat16"


def test_arithmetic_is_float32_in_mixed_precision():
    # In float16 the squares of these would overflow.
    layer = layers.LayerNorm(2, dtype="mixed_float16")
    layer.build()

    result = layer(np.array([[1000, -1000]], "float16"))

    assert layer.gamma.dtype == "float32"
    assert result.dtype == "float16"
    np.testing.assert_allclose(result, [[1, -1]], rtol=1e-3)


@pytest.mark.parametrize(
    ("make", "output", "dtype"),
    [
        (AlbertModel, "sequence_output", "mixed_bfloat16"),
        (functools.partial(ClassifierModel, num_labels=3), "logits", "float32"),
    ],
)
def test_keras_quantizes_all_matrices_of_linear_layers(make, output, dtype):
    config = tiny.config(hidden_size=32, initializer_range=0.2)
    model, batch = make(config, dtype=dtype), tiny.batch()
    before = np.asarray(model(batch)[output], "float32")

    model.quantize("int8")

    kernels = [w for w in model.weights if w.name == "kernel"]
    assert {kernel.dtype for kernel in kernels} == {"int8"}
    assert len(kernels) == 8
    after = np.asarray(model(batch)[output], "float32")
    assert 0 < np.abs(after - before).max() < 0.1 * np.abs(before).max()


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_a_quantized_model_is_saved_and_copied(mode, tmp_path):
    model = PretrainingModel(tiny.config(), dtype="mixed_bfloat16")
    batch = tiny.batch()
    model.quantize(mode)
    tables = [w for w in model.weights if w.name == "embeddings"]
    assert [table.dtype for table in tables] == ["int8"] * 3

    model.save(tmp_path / "quantized.keras")
    loaded = keras.saving.load_model(tmp_path / "quantized.keras")
    copied = keras.models.clone_model(model)
    copied.set_weights(model.get_weights())

    for name, values in model(batch).items():
        np.testing.assert_array_equal(loaded(batch)[name], values)
        np.testing.assert_array_equal(copied(batch)[name], values)


def test_a_model_keeps_how_its_layers_were_quantized(tiny_batch):
    model = AlbertModel(tiny.config(initializer_range=2.0))
    exact = model(tiny_batch)["pooled_output"]
    settings = keras.quantizers.Int8QuantizationConfig(
        activation_quantizer=None
    )
    model.quantize(config=settings, filters="pooler")

    copied = keras.models.clone_model(model)
    copied.set_weights(model.get_weights())

    assert copied.pooler.inputs_quantizer is None
    assert copied.embeddings.word_embeddings.quantization_mode is None
    wanted = np.asarray(model(tiny_batch)["pooled_output"])
    np.testing.assert_array_equal(copied(tiny_batch)["pooled_output"], wanted)
    assert np.any(wanted != np.asarray(exact))


def test_a_layer_whose_kernel_is_read_in_halves_is_not_quantized(tiny_config):
    head = BeamSpanModel(tiny_config).beam_span_head

    with pytest.raises(
        NotImplementedError, match="'end_dense_0' stays float32"
    ):
        head.end_dense_0.quantize("int8")


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("recompute", [False, True])
def test_lora_of_a_linear_layer_is_trained(
    tiny_config, tiny_batch, recompute, dtype
):
    model = AlbertModel(tiny_config, dtype=dtype)
    before = np.asarray(model(tiny_batch)["sequence_output"])
    [sublayer] = model.encoder.attention_sublayers
    sublayer.query.enable_lora(2)

    kernels = fused.Kernels(recompute=recompute)
    with computing_with(model, kernels):
        with tf.GradientTape() as tape:
            output = model(tiny_batch)["sequence_output"]
            loss = tf.reduce_sum(output**2 * tiny.floats(*output.shape))
        gradient = tape.gradient(loss, sublayer.query.lora_kernel_b.value)
    np.testing.assert_allclose(output, before, atol=1e-6)
    names = [v.name for v in sublayer.query.trainable_variables]
    assert names == ["bias", "lora_kernel_a", "lora_kernel_b"]
    assert np.abs(gradient).max() > 0


@pytest.mark.parametrize(
    "mode", [None, pytest.param("int8", marks=pytest.mark.slow)]
)
def test_lora_of_a_model_trains_query_and_value_alone(
    tiny_batch, mode, tmp_path
):
    model = ClassifierModel(tiny.config(hidden_size=32), num_labels=3)
    if mode:
        model.quantize(mode)
    model.albert.enable_lora(2)

    names = {v.path.split("/", 1)[1] for v in model.trainable_variables}
    lora = ("bias", "lora_kernel_a", "lora_kernel_b")
    assert names == {"output_weights", "output_bias"} | {
        f"encoder/attention_0_0/{layer}/{variable}"
        for layer in ("query", "value")
        for variable in lora
    }
    # Of int8, so fast that the sums are other integers.
    adam = keras.optimizers.Adam(0.1 if mode else 0.001)
    model.compile(adam, loss={"logits": "mse"})
    before = np.asarray(model(tiny_batch)["logits"])
    model.fit(tiny_batch, {"logits": before + 1}, epochs=3, verbose=0)
    trained = np.asarray(model(tiny_batch)["logits"])
    assert np.any(trained != before)
    model.save(tmp_path / "lora.keras")
    loaded = keras.saving.load_model(tmp_path / "lora.keras", compile=False)
    # The sum of a quantized kernel and its addition is quantized once more.
    tolerance = 0.2 * np.abs(trained - before).max() if mode else 1e-6
    np.testing.assert_allclose(
        loaded(tiny_batch)["logits"], trained, atol=tolerance
    )
    assert len(loaded.trainable_variables) == (4 if mode else 6)
    loaded.albert.enable_lora(2)
    assert len(loaded.trainable_variables) == 8
