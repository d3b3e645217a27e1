"""The pretraining model, above all against recorded numbers (tests/parity)."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import variable_names
from albert_tf.modeling import fused, losses
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from tests import fusing, tiny
from tests.modeling.recorded import PRETRAINED, Recorded, gradients_of


@pytest.fixture(scope="module", params=PRETRAINED)
def recorded(request):
    return Recorded(request.param)


@pytest.fixture(scope="module")
def model(recorded):
    return recorded.load(PretrainingModel(recorded.config))


def _sums(model, recorded, fusion, weights=None):
    """The sums of both losses."""
    numbers = recorded.numbers
    outputs = model(model.inputs_of(recorded.batch), fusion=fusion)
    if weights is None:
        weights = numbers["masked_lm_weights"]
    return losses.weighted_sums(
        outputs["masked_lm_logits"], numbers["masked_lm_ids"], weights, fusion
    ), losses.sentence_order_sums(
        outputs["sentence_order_logits"],
        numbers["sentence_order_labels"],
        np.ones(3, "f"),
    )


def _masked_lm_loss(sums):
    return sums.loss / (sums.weight + losses.MASKED_LM_EPSILON)


def _total_loss(masked_lm, sentence_order):
    order_loss = sentence_order.loss / sentence_order.weight
    return _masked_lm_loss(masked_lm) + order_loss


def test_encoder_outputs_are_the_recorded_ones(recorded, model, fusion):
    encoder = AlbertModel(recorded.config, output_hidden_states=True)
    encoder.set_weights(model.albert.get_weights())

    outputs = encoder(encoder.inputs_of(recorded.batch), fusion=fusion)

    for name in ("embedding_output", "sequence_output", "pooled_output"):
        recorded.assert_close(outputs[name], name)
    states = np.stack(outputs["hidden_states"][1:])
    assert states.shape == recorded.numbers["hidden_states"].shape
    for ours, theirs in zip(
        states, recorded.numbers["hidden_states"], strict=True
    ):
        assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()


def test_logits_and_losses_are_the_recorded_ones(recorded, model, fusion):
    numbers = recorded.numbers
    outputs = model(model.inputs_of(recorded.batch), fusion=fusion)
    for name, logits, labels in (
        ("mlm", "masked_lm_logits", "masked_lm_ids"),
        ("sop", "sentence_order_logits", "sentence_order_labels"),
    ):
        log_probs = tf.nn.log_softmax(outputs[logits])
        each = fused.cross_entropy(outputs[logits], numbers[labels], fusion)
        num_classes = log_probs.shape[-1]
        recorded.assert_close(
            tf.reshape(log_probs, [-1, num_classes]), f"{name}_log_probs"
        )
        recorded.assert_close(tf.reshape(each, [-1]), f"{name}_example_loss")

    masked_lm, sentence_order = _sums(model, recorded, fusion)
    recorded.assert_close(_masked_lm_loss(masked_lm), "mlm_loss")
    recorded.assert_close(
        sentence_order.loss / sentence_order.weight, "sop_loss"
    )
    recorded.assert_close(_total_loss(masked_lm, sentence_order), "total_loss")
    # The metrics of an evaluation.
    for name, each in zip(
        ("masked_lm", "sentence_order"),
        _sums(model, recorded, fusion),
        strict=True,
    ):
        for metric, total in (("loss", each.loss), ("accuracy", each.correct)):
            recorded.assert_close(total / each.weight, f"eval/{name}_{metric}")


def test_gradients_of_all_variables_are_the_recorded_ones(
    recorded, model, fusion
):
    recorded.assert_gradients(
        model, lambda: _total_loss(*_sums(model, recorded, fusion))
    )
    names = variable_names.variables_by_tf1_name(model.trainable_variables)
    found = {k for k in recorded.numbers if k.startswith("grad/")}
    assert found == {f"grad/{name}" for name in names}


# Losses are up to 6e-4 off, gradients up to 0.027 and 0.102.
_BFLOAT16_BOUNDS = {"model_base": 0.04, "model_groups": 0.15}


@pytest.mark.parametrize(
    "fusion",
    [None, fusing.FusesAll(dtype="bfloat16")],
    ids=["plain", "fused"],
    scope="module",
)
def test_bfloat16_is_near_the_recorded_numbers(recorded, fusion):
    model = PretrainingModel(recorded.config, dtype="mixed_bfloat16")
    recorded.load(model)
    computed = []
    bound = _BFLOAT16_BOUNDS[recorded.name]

    def loss():
        computed.append(_total_loss(*_sums(model, recorded, fusion)))
        return computed[-1]

    gradients = gradients_of(model, loss)

    wanted = float(recorded.numbers["total_loss"])
    assert float(computed[0]) == pytest.approx(wanted, rel=2e-3)
    # The gradients of keys' biases, for one, are nothing but rounding.
    least = 0.01 * float(recorded.numbers["grad_global_norm"])
    for name, gradient in gradients.items():
        wanted = recorded.numbers[f"grad/{name}"]
        error = np.linalg.norm(gradient - wanted)
        assert error <= bound * max(np.linalg.norm(wanted), least), name


def test_the_denominator_has_the_recorded_epsilon(recorded, model, fusion):
    tiny_weights = recorded.numbers["tiny_weight/masked_lm_weights"]
    for name, weights in (
        ("zero_weights", np.zeros_like(tiny_weights)),
        ("tiny_weight", tiny_weights),
    ):
        masked_lm, _ = _sums(model, recorded, fusion, weights)

        recorded.assert_close(_masked_lm_loss(masked_lm), f"{name}/mlm_loss")


_ZEROS = np.zeros((1, 24), "int32")


@pytest.mark.parametrize(
    ("case", "inputs", "tolerance"),
    [
        ("defaults", {}, 1e-5),
        (
            "all_padding_row",
            {"input_mask": _ZEROS, "segment_ids": _ZEROS},
            1e-3,
        ),
    ],
)
def test_inputs_left_out_and_rows_of_padding_give_the_recorded_numbers(
    recorded, model, fusion, case, inputs, tolerance
):
    ids = recorded.numbers.get(f"{case}/input_ids", _ZEROS)

    outputs = model.albert({"input_ids": ids} | inputs, fusion=fusion)

    for name in ("sequence_output", "pooled_output"):
        recorded.assert_close(outputs[name], f"{case}/{name}", tolerance)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int64", "float32"])
def test_ids_may_have_any_type(dtype):
    model = PretrainingModel(tiny.config())
    ids = {"input_ids": [[2, 5, 6, 3]], "masked_lm_positions": [[1, 2]]}
    batches = [
        {name: np.array(values, kind) for name, values in ids.items()}
        for kind in ("int32", dtype)
    ]

    outputs = [model(batch)["masked_lm_logits"] for batch in batches]

    np.testing.assert_array_equal(*outputs)


@pytest.mark.parametrize(
    ("objectives", "output"),
    [(["mlm"], "masked_lm_logits"), (["sop"], "sentence_order_logits")],
)
def test_only_the_heads_asked_for_exist(
    tiny_config, tiny_batch, objectives, output
):
    model = PretrainingModel(tiny_config, objectives=objectives)

    heads = {w.path.split("/")[0] for w in model.weights} - {"albert"}
    assert list(model(tiny_batch)) == [output]
    assert len(heads) == 1
