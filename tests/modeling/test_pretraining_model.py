"""The pretraining model, above all against recorded numbers (tests/parity)."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import variable_names
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.fused import computing_with
from albert_tf.modeling.operations import PLAIN
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.tasks.pretraining.objectives import PretrainingTask
from tests import fusing, tiny
from tests.modeling.recorded import PRETRAINED, Recorded, gradients_of


@pytest.fixture(scope="module", params=PRETRAINED)
def recorded(request):
    return Recorded(request.param)


@pytest.fixture(scope="module")
def task(recorded):
    task = PretrainingTask(recorded.config)
    recorded.load(task.model)
    return task


def _loss(task, batch, operations=PLAIN):
    """The loss, and the totals as numbers."""
    denominators = task.loss_denominators(batch)
    with computing_with(task.model, operations):
        loss, totals = task.loss(batch, denominators, seed=None)
    return loss, {name: float(total) for name, total in totals.items()}


def test_encoder_outputs_are_the_recorded_ones(recorded, task, operations):
    encoder = AlbertModel(recorded.config, output_hidden_states=True)
    encoder.set_weights(task.model.albert.get_weights())

    with computing_with(encoder, operations):
        outputs = encoder(encoder.inputs_of(recorded.batch))

    for name in ("embedding_output", "sequence_output", "pooled_output"):
        recorded.assert_close(outputs[name], name)
    states = np.stack(outputs["hidden_states"][1:])
    assert states.shape == recorded.numbers["hidden_states"].shape
    for ours, theirs in zip(
        states, recorded.numbers["hidden_states"], strict=True
    ):
        assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()


def test_logits_and_losses_are_the_recorded_ones(recorded, task, operations):
    numbers, model = recorded.numbers, task.model
    with computing_with(model, operations):
        outputs = model(model.inputs_of(recorded.batch))
    for name, logits, labels in (
        ("mlm", "masked_lm_logits", "masked_lm_ids"),
        ("sop", "sentence_order_logits", "sentence_order_labels"),
    ):
        log_probs = tf.nn.log_softmax(outputs[logits])
        each = operations.cross_entropy(outputs[logits], numbers[labels])
        num_classes = log_probs.shape[-1]
        recorded.assert_close(
            tf.reshape(log_probs, [-1, num_classes]), f"{name}_log_probs"
        )
        recorded.assert_close(tf.reshape(each, [-1]), f"{name}_example_loss")

    loss, totals = _loss(task, recorded.batch, operations)
    recorded.assert_close(loss, "total_loss")
    scores = task.training_scores(totals)
    for name, score in {
        "total_loss": "loss",
        "mlm_loss": "masked_lm_loss",
        "sop_loss": "sentence_order_loss",
    }.items():
        recorded.assert_close(np.array(scores[score]), name)
    metrics = task.evaluation_scores(totals).flat()
    assert len(metrics) == 4
    for name, value in metrics.items():
        recorded.assert_close(np.array(value), f"eval/{name}")


def test_gradients_of_all_variables_are_the_recorded_ones(
    recorded, task, operations
):
    recorded.assert_gradients(
        task.model, lambda: _loss(task, recorded.batch, operations)[0]
    )
    names = variable_names.variables_by_tf1_name(task.model.trainable_variables)
    found = {k for k in recorded.numbers if k.startswith("grad/")}
    assert found == {f"grad/{name}" for name in names}


# Losses are up to 6e-4 off, gradients up to 0.027 and 0.102.
_BFLOAT16_BOUNDS = {"model_base": 0.04, "model_groups": 0.15}


@pytest.mark.parametrize(
    "operations",
    [PLAIN, fusing.FusesAll(dtype="bfloat16")],
    ids=["plain", "fused"],
    scope="module",
)
def test_bfloat16_is_near_the_recorded_numbers(recorded, operations):
    task = PretrainingTask(recorded.config, dtype="mixed_bfloat16")
    recorded.load(task.model)
    computed = []
    bound = _BFLOAT16_BOUNDS[recorded.name]

    def loss():
        computed.append(_loss(task, recorded.batch, operations)[0])
        return computed[-1]

    gradients = gradients_of(task.model, loss)

    wanted = float(recorded.numbers["total_loss"])
    assert float(computed[0]) == pytest.approx(wanted, rel=2e-3)
    # The gradients of keys' biases, for one, are nothing but rounding.
    least = 0.01 * float(recorded.numbers["grad_global_norm"])
    for name, gradient in gradients.items():
        wanted = recorded.numbers[f"grad/{name}"]
        error = np.linalg.norm(gradient - wanted)
        assert error <= bound * max(np.linalg.norm(wanted), least), name


def test_the_denominator_has_the_recorded_epsilon(recorded, task):
    tiny_weights = recorded.numbers["tiny_weight/masked_lm_weights"]
    for name, weights in (
        ("zero_weights", np.zeros_like(tiny_weights)),
        ("tiny_weight", tiny_weights),
    ):
        batch = recorded.batch | {"masked_lm_weights": weights}
        _, totals = _loss(task, batch)
        loss = task.training_scores(totals)["masked_lm_loss"]

        recorded.assert_close(np.array(loss), f"{name}/mlm_loss")


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
    recorded, task, case, inputs, tolerance
):
    ids = recorded.numbers.get(f"{case}/input_ids", _ZEROS)

    outputs = task.model.albert({"input_ids": ids} | inputs)

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
