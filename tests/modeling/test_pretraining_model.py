"""The pretraining model, above all against recorded numbers (tests/parity)."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load, tf1, variable_names
from albert_tf.config import AlbertConfig
from albert_tf.modeling import losses
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_INPUTS = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions")


class Recorded:
    """A recorded model: its folder, its numbers, and ours with its weights."""

    def __init__(self, folder):
        self.folder = folder
        self.numbers = np.load(folder / "golden.npz")
        self.config = AlbertConfig.from_json_file(folder / "albert_config.json")
        self.model = PretrainingModel(self.config)
        load.load_checkpoint(self.model, folder)
        self.batch = {name: self.numbers[name] for name in _INPUTS}

    def sums(self, weights="masked_lm_weights"):
        outputs = self.model(self.batch)
        masked_lm = losses.masked_lm_sums(
            outputs["masked_lm_logits"],
            self.numbers["masked_lm_ids"],
            self.numbers[weights] if isinstance(weights, str) else weights,
        )
        sentence_order = losses.sentence_order_sums(
            outputs["sentence_order_logits"],
            self.numbers["sentence_order_labels"],
        )
        return masked_lm, sentence_order


@pytest.fixture(scope="module", params=["model_base", "model_groups"])
def recorded(request):
    return Recorded(_ROOT / "tests" / "parity" / request.param)


def _assert_close(actual, recorded, tolerance=1e-5, absolute=0.0):
    """Largest difference against the largest recorded value."""
    assert tuple(actual.shape) == recorded.shape
    difference = np.abs(np.asarray(actual) - recorded).max()
    bound = max(tolerance * np.abs(recorded).max(), absolute)
    assert difference <= bound, f"{difference} > {bound}"


def _masked_lm_loss(sums):
    return sums.loss / (sums.weight + losses.MASKED_LM_EPSILON)


def test_encoder_outputs_are_the_recorded_ones(recorded):
    encoder = AlbertModel(recorded.config, output_hidden_states=True)
    encoder.set_weights(recorded.model.albert.get_weights())

    outputs = encoder(recorded.batch)

    for name in ("embedding_output", "sequence_output", "pooled_output"):
        _assert_close(outputs[name], recorded.numbers[name])
    states = outputs["hidden_states"][1:]
    assert len(states) == len(recorded.numbers["hidden_states"])
    for ours, theirs in zip(
        states, recorded.numbers["hidden_states"], strict=True
    ):
        _assert_close(ours, theirs)


def test_logits_are_the_recorded_ones(recorded):
    outputs = recorded.model(recorded.batch)
    numbers = recorded.numbers

    masked_lm = tf.nn.log_softmax(outputs["masked_lm_logits"])
    _assert_close(
        tf.reshape(masked_lm, numbers["mlm_log_probs"].shape),
        numbers["mlm_log_probs"],
    )
    _assert_close(
        tf.nn.log_softmax(outputs["sentence_order_logits"]),
        numbers["sop_log_probs"],
    )


def test_losses_are_the_recorded_ones(recorded):
    outputs = recorded.model(recorded.batch)
    numbers = recorded.numbers
    masked_lm, sentence_order = recorded.sums()

    _assert_close(
        tf.reshape(
            losses.cross_entropy(
                outputs["masked_lm_logits"], numbers["masked_lm_ids"]
            ),
            [-1],
        ),
        numbers["mlm_example_loss"],
    )
    _assert_close(
        losses.cross_entropy(
            outputs["sentence_order_logits"], numbers["sentence_order_labels"]
        ),
        numbers["sop_example_loss"],
    )
    masked_lm_loss = _masked_lm_loss(masked_lm)
    sentence_order_loss = sentence_order.loss / sentence_order.weight
    _assert_close(masked_lm_loss, numbers["mlm_loss"])
    _assert_close(sentence_order_loss, numbers["sop_loss"])
    _assert_close(masked_lm_loss + sentence_order_loss, numbers["total_loss"])


def test_evaluation_metrics_are_the_recorded_ones(recorded):
    numbers = recorded.numbers
    names = ("masked_lm", "sentence_order")

    for name, sums in zip(names, recorded.sums(), strict=True):
        _assert_close(sums.loss / sums.weight, numbers[f"eval/{name}_loss"])
        _assert_close(
            sums.correct / sums.weight, numbers[f"eval/{name}_accuracy"]
        )


def test_gradients_of_all_variables_are_the_recorded_ones(recorded):
    variables = recorded.model.trainable_variables
    with tf.GradientTape() as tape:
        masked_lm, sentence_order = recorded.sums()
        total = _masked_lm_loss(masked_lm)
        total += sentence_order.loss / sentence_order.weight

    gradients = tape.gradient(total, [v.value for v in variables])

    gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
    names = list(variable_names.variables_by_tf1_name(variables))
    wanted = {
        k.removeprefix("grad/") for k in recorded.numbers.files if "grad/" in k
    }
    assert set(names) == wanted
    for name, gradient in zip(names, gradients, strict=True):
        _assert_close(
            gradient, recorded.numbers[f"grad/{name}"], 1e-4, absolute=1e-6
        )
    _assert_close(
        tf.linalg.global_norm(gradients),
        recorded.numbers["grad_global_norm"],
        1e-4,
    )


def test_weights_of_zero_give_a_loss_of_zero(recorded):
    no_weights = np.zeros_like(recorded.numbers["masked_lm_weights"])

    masked_lm, _ = recorded.sums(no_weights)

    assert float(_masked_lm_loss(masked_lm)) == 0
    assert float(recorded.numbers["zero_weights/mlm_loss"]) == 0


def test_the_denominator_has_the_recorded_epsilon(recorded):
    masked_lm, _ = recorded.sums("tiny_weight/masked_lm_weights")

    _assert_close(
        _masked_lm_loss(masked_lm), recorded.numbers["tiny_weight/mlm_loss"]
    )


def test_inputs_left_out_have_the_recorded_defaults(recorded):
    numbers = recorded.numbers

    outputs = recorded.model.albert(
        {"input_ids": numbers["defaults/input_ids"]}
    )

    for name in ("sequence_output", "pooled_output"):
        _assert_close(outputs[name], numbers[f"defaults/{name}"])


def test_a_row_of_padding_gives_the_recorded_numbers(recorded):
    zeros = np.zeros((1, 24), "int32")

    outputs = recorded.model.albert(
        {"input_ids": zeros, "input_mask": zeros, "segment_ids": zeros}
    )

    for name in ("sequence_output", "pooled_output"):
        _assert_close(
            outputs[name], recorded.numbers[f"all_padding_row/{name}"], 1e-3
        )


_JAX_PROGRAM = """
import sys
import jax
import numpy as np
from albert_tf.checkpoints import variable_names
from albert_tf.config import AlbertConfig
from albert_tf.modeling.pretraining_model import PretrainingModel

folder, weights, results = sys.argv[1:]
config = AlbertConfig.from_json_file(folder + "/albert_config.json")
model = PretrainingModel(config)
arrays = np.load(weights)
named = variable_names.variables_by_tf1_name(model.weights)
for name, variable in named.items():
    variable.assign(arrays[name])
golden = np.load(folder + "/golden.npz")
names = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions")
batch = {name: golden[name] for name in names}

@jax.jit
def drop(seed):
    trained = [variable.value for variable in model.trainable_variables]
    others = [variable.value for variable in model.non_trainable_variables]
    outputs, _ = model.stateless_call(
        trained, others, batch, training=True, seed=seed)
    return outputs["sentence_order_logits"]

encoded = model.albert(batch)
seed = np.array([1, 2], "int32")
np.savez(
    results,
    sequence_output=encoded["sequence_output"],
    pooled_output=encoded["pooled_output"],
    dropped=drop(seed), dropped_again=drop(seed), dropped_else=drop(seed + 1),
    **model(batch),
)
"""


def test_the_jax_back_end_finds_the_same_numbers(recorded, tmp_path):
    pytest.importorskip("jax", reason="needs the development extra (jax)")
    arrays = tf1.read(recorded.folder)
    arrays = {name.removeprefix("module/"): a for name, a in arrays.items()}
    weights, results = str(tmp_path / "weights.npz"), str(tmp_path / "out.npz")
    np.savez(weights, **arrays)

    subprocess.run(
        [sys.executable, "-c", _JAX_PROGRAM, recorded.folder, weights, results],
        env=os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
        cwd=_ROOT,
        check=True,
    )

    found = np.load(results)
    for name in ("sequence_output", "pooled_output"):
        _assert_close(found[name], recorded.numbers[name])
    for name, logits in recorded.model(recorded.batch).items():
        _assert_close(found[name], np.asarray(logits))
    np.testing.assert_array_equal(found["dropped"], found["dropped_again"])
    if recorded.config.hidden_dropout_prob:
        assert (found["dropped"] != found["dropped_else"]).any()


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


def test_sentence_order_alone_needs_no_positions(tiny_config, tiny_batch):
    model = PretrainingModel(tiny_config, objectives=("sop",))
    del tiny_batch["masked_lm_positions"]

    assert model(tiny_batch)["sentence_order_logits"].shape == (2, 2)


def test_trains_with_plain_keras(tiny_config, tiny_batch):
    model = PretrainingModel(tiny_config, objectives=("sop",))
    model.compile(
        optimizer="sgd",
        loss={
            "sentence_order_logits": "sparse_categorical_crossentropy",
        },
    )

    history = model.fit(
        tiny_batch,
        {"sentence_order_logits": np.array([0, 1])},
        epochs=2,
        verbose=0,
    )

    assert np.isfinite(history.history["loss"]).all()
