import keras
import numpy as np

from albert_tf.modeling import losses, span_models
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel
from tests.modeling.recorded import Recorded


def test_logits_loss_and_gradients_equal_the_recorded_ones(fusion):
    recorded = Recorded("squad_v1")
    model = recorded.load(SpanModel(recorded.config))

    def loss():
        sums = losses.span_sums(
            model(recorded.batch, fusion=fusion),
            recorded.batch["start_positions"],
            recorded.batch["end_positions"],
            np.ones(4, "f"),
        )
        return sums.loss / sums.weight

    outputs = model(recorded.batch, fusion=fusion)
    recorded.assert_close(outputs["start_logits"], "start_logits")
    recorded.assert_close(outputs["end_logits"], "end_logits")
    recorded.assert_close(loss(), "loss")
    recorded.assert_gradients(model, loss)


def test_forbidden_positions_have_no_probability():
    logits = np.array([[1.0, 5.0, 2.0]], "f")
    p_mask = np.array([[0.0, 1.0, 0.0]], "f")

    log_probs = np.asarray(span_models.masked_log_probs(logits, p_mask))

    probabilities = np.exp(log_probs[0])
    wanted = np.exp([1.0, -np.inf, 2.0]) / (np.e + np.e**2)
    np.testing.assert_allclose(probabilities, wanted, rtol=1e-6)


def test_an_end_is_scored_by_its_vector_and_that_of_its_start(tiny_config):
    head = span_models.BeamSpanHead(tiny_config, dropout_prob=0.0, seed=0)
    head.build()
    rng = np.random.default_rng(0)
    sequence = rng.standard_normal((1, 4, 8)).astype("f")
    starts = np.array([[2, 0]], "int32")

    log_probs = np.asarray(
        head.end_log_probs(sequence, starts, np.zeros((1, 4), "f"))
    )

    assert log_probs.shape == (1, 2, 4)
    for row, start in enumerate(starts[0]):
        pairs = np.concatenate(
            [sequence[0], np.tile(sequence[0, start], (4, 1))], axis=1
        )
        hidden = head.end_layer_norm(
            np.tanh(np.asarray(head.end_dense_0(pairs)))
        )
        logits = np.asarray(head.end_dense_1(hidden))[:, 0]
        wanted = logits - np.log(np.exp(logits).sum())
        np.testing.assert_allclose(log_probs[0, row], wanted, rtol=1e-4)


def test_training_outputs_loss_and_gradients_equal_the_recorded_ones(fusion):
    recorded = Recorded("squad_v2")
    model = recorded.load(BeamSpanModel(recorded.config, dropout_prob=0.0))

    def outputs():
        return model(
            recorded.batch,
            training=True,
            seed=np.zeros(2, "int32"),
            fusion=fusion,
        )

    def loss():
        sums = losses.beam_span_sums(outputs(), recorded.batch, np.ones(4, "f"))
        return sums.loss / sums.weight

    found, ones = outputs(), np.ones(4, "f")
    for key in ("start_log_probs", "end_log_probs", "cls_logits"):
        recorded.assert_close(found[key], f"train/{key}")
    parts = {
        part: losses.weighted_sums(
            found[f"{part}_log_probs"],
            recorded.batch[f"{part}_positions"],
            ones,
        ).loss
        / 4
        for part in ("start", "end")
    }
    parts["answerable"] = 2 * loss() - parts["start"] - parts["end"]
    for part, value in parts.items():
        recorded.assert_close(value, f"train/{part}_loss")
    recorded.assert_close(loss(), "train/loss")
    recorded.assert_gradients(model, loss, norm="train/grad_global_norm")


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
