"""What every task that is fine-tuned has in common."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load, tf1, variable_names
from albert_tf.config import AlbertConfig
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tasks.race.task import MultipleChoiceTask
from albert_tf.tasks.task import FinetuningTask

# B = 3, C = 2, S = 6.
CONFIG = AlbertConfig(
    vocab_size=11,
    embedding_size=4,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=8,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
)
ROWS = {
    "input_ids": [[2, 4, 5, 3, 6, 3], [2, 7, 3, 8, 3, 0], [2, 9, 10, 3, 4, 3]],
    "input_mask": [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]],
    "segment_ids": [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 1, 1]],
}
SINGLE = {name: tf.constant(rows) for name, rows in ROWS.items()}
# The choices of a question are two rows of the above.
CHOICES = {
    name: tf.stack([rows, tf.roll(rows, 1, axis=0)], axis=1)
    for name, rows in SINGLE.items()
}
CASES = {
    "classification": (
        lambda **more: ClassificationTask(CONFIG, num_labels=3, **more),
        SINGLE | {"label_ids": tf.constant([2, 0, 1])},
    ),
    "regression": (
        lambda **more: ClassificationTask(CONFIG, num_labels=0, **more),
        SINGLE | {"label_ids": tf.constant([0.5, 4.0, 2.5])},
    ),
    "multiple_choice": (
        lambda **more: MultipleChoiceTask(CONFIG, **more),
        CHOICES | {"label_ids": tf.constant([0, 1, 1])},
    ),
}
# Adding the same to all that a softmax compares changes nothing: to every
# key's score, or to every choice's.
NO_EFFECT = {name: ("key/bias",) for name in CASES} | {
    "multiple_choice": ("key/bias", "output_bias")
}
NUM_STEPS = 60


@pytest.fixture(params=CASES)
def case(request):
    """The name of a task, what makes it, and a batch."""
    return request.param, *CASES[request.param]


def loss_of(task, batch, seed=None):
    return task.loss(batch, task.loss_denominators(batch), seed=seed)[0]


def gradients_of(task, batch, seed):
    weights = task.model.trainable_variables
    with tf.GradientTape() as tape:
        loss = loss_of(task, batch, seed)
    return loss, tape.gradient(loss, [weight.value for weight in weights])


def assert_same_outputs(found, wanted, **tolerance):
    assert set(found) == set(wanted)
    for name, value in found.items():
        np.testing.assert_allclose(value, wanted[name], **tolerance)


def test_it_is_a_task_for_fine_tuning(case):
    _, make_task, _ = case

    task: FinetuningTask = make_task()

    promised = {"model", "total_names", "loss_denominators", "loss", "outputs"}
    promised |= {"training_scores", "evaluation_scores", "sequence_outputs"}
    for name in promised:
        assert hasattr(task, name), name


def test_what_it_returns_has_the_keys_and_shapes_it_promises(case):
    _, make_task, batch = case
    task = make_task()

    loss_denominators = task.loss_denominators(batch)
    loss, sums = task.loss(batch, loss_denominators, seed=tf.constant([1, 2]))

    assert set(sums) == set(task.total_names)
    assert float(sums["examples"]) == 3
    assert float(sums["tokens"]) == float(
        tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32))
    )
    for value in [loss, *loss_denominators.values(), *sums.values()]:
        assert (value.dtype, value.shape) == (tf.float32, [])
    scores = task.training_scores({k: float(v) for k, v in sums.items()})
    assert scores["loss"] == pytest.approx(float(loss), rel=1e-5)


def test_it_trains(case):
    _, make_task, batch = case
    task = make_task()
    optimizer = keras.optimizers.Adam(0.01)
    before = float(loss_of(task, batch))

    @tf.function
    def step(seed):
        _, gradients = gradients_of(task, batch, seed)
        pairs = zip(gradients, task.model.trainable_variables, strict=True)
        optimizer.apply_gradients([p for p in pairs if p[0] is not None])

    optimizer.build(task.model.trainable_variables)
    for number in range(NUM_STEPS):
        step(tf.constant([number, 0]))

    assert float(loss_of(task, batch)) < 0.5 * before


def test_every_weight_gets_a_gradient(case):
    name, make_task, batch = case
    task = make_task()

    _, gradients = gradients_of(task, batch, tf.constant([1, 2]))

    for weight, gradient in zip(
        task.model.trainable_variables, gradients, strict=True
    ):
        assert gradient is not None, weight.path
        largest = float(tf.reduce_max(tf.abs(tf.convert_to_tensor(gradient))))
        if weight.path.endswith(NO_EFFECT[name]):
            assert largest < 1e-6, weight.path
        else:
            assert 0 < largest < np.inf, weight.path


def test_it_predicts_the_same_when_it_is_saved_and_loaded(case, tmp_path):
    _, make_task, batch = case
    task, other = make_task(seed=1), make_task(seed=2)
    wanted = task.outputs(batch)
    variables = variable_names.variables_by_tf1_name(task.model.weights)

    tf1.write(
        tmp_path / "model.ckpt",
        {name: np.asarray(value) for name, value in variables.items()},
    )
    assert any(
        np.any(np.asarray(value) != np.asarray(wanted[name]))
        for name, value in other.outputs(batch).items()
    )
    unused = load.load_checkpoint(other.model, tmp_path / "model.ckpt")

    assert not unused
    assert_same_outputs(other.outputs(batch), wanted, rtol=0)


def test_it_predicts_the_same_each_time(case):
    # Dropout is for training alone.
    _, make_task, batch = case
    task = make_task()

    first, second = task.outputs(batch), task.outputs(batch)

    assert_same_outputs(first, second, rtol=0)
    for value in first.values():
        assert value.dtype in (tf.float32, tf.int32)
        assert value.shape[0] == 3


def test_the_seed_decides_the_weights(case):
    _, make_task, batch = case

    losses = [float(loss_of(make_task(seed=seed), batch)) for seed in (1, 1, 2)]

    assert losses[0] == losses[1] != losses[2]


def test_padding_changes_no_output_and_no_loss(case):
    _, make_task, batch = case
    task = make_task()
    longer = {
        name: tf.pad(value, [[0, 0]] * (len(value.shape) - 1) + [[0, 2]])
        if name in ROWS
        else value
        for name, value in batch.items()
    }

    found = {
        name: value[:, :6] if name in task.sequence_outputs else value
        for name, value in task.outputs(longer).items()
    }

    assert_same_outputs(found, task.outputs(batch), rtol=1e-5, atol=1e-6)
    assert float(loss_of(task, longer)) == pytest.approx(
        float(loss_of(task, batch)), rel=1e-5
    )


def test_examples_that_weigh_nothing_change_nothing(case):
    _, make_task, batch = case
    task = make_task()
    first = {name: value[:2] for name, value in batch.items()}
    filled = batch | {"example_weights": tf.constant([1.0, 1.0, 0.0])}

    loss, sums = task.loss(first, task.loss_denominators(first), seed=None)
    same_loss, same = task.loss(
        filled, task.loss_denominators(filled), seed=None
    )

    assert float(same_loss) == pytest.approx(float(loss), rel=1e-5)
    for name, value in sums.items():
        assert float(same[name]) == pytest.approx(float(value), rel=1e-5)
