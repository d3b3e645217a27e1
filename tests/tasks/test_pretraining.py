import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load
from albert_tf.config import AlbertConfig
from albert_tf.tasks.pretraining import PretrainingTask

TINY = AlbertConfig(
    vocab_size=11,
    embedding_size=4,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=6,
    max_position_embeddings=5,
    hidden_dropout_prob=0.5,
)
BATCH = {
    "input_ids": tf.constant([[2, 4, 6, 3, 0], [2, 7, 4, 8, 3]]),
    "input_mask": tf.constant([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]),
    "segment_ids": tf.zeros([2, 5], tf.int32),
    "masked_lm_positions": tf.constant([[1, 0, 0], [2, 3, 0]]),
    "masked_lm_ids": tf.constant([[9, 0, 0], [6, 8, 0]]),
    "masked_lm_weights": tf.constant([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]),
    "sentence_order_labels": tf.constant([0, 1]),
}


def as_floats(sums):
    return {name: float(value) for name, value in sums.items()}


def evaluate(task, batch):
    _, sums = task.loss(batch, task.loss_denominators(batch), seed=None)
    return task.evaluation_scores(as_floats(sums))


@pytest.fixture
def recorded(shared_data):
    """The task with the recorded weights, its batch, and the numbers."""
    folder = shared_data / "golden" / "model_base"
    config = AlbertConfig.from_json_file(folder / "albert_config.json")
    task = PretrainingTask(config)
    load.load_checkpoint(task.model, folder)
    arrays = np.load(folder / "golden.npz")
    batch = {name: tf.constant(arrays[name]) for name in BATCH}
    return task, batch, arrays


def test_losses_equal_the_recorded_ones(recorded):
    task, batch, arrays = recorded

    loss, sums = task.loss(batch, task.loss_denominators(batch), seed=None)

    scores = task.training_scores(as_floats(sums))
    assert float(loss) == pytest.approx(float(arrays["total_loss"]), rel=1e-5)
    assert scores == {
        "loss": pytest.approx(float(arrays["total_loss"]), rel=1e-5),
        "masked_lm_loss": pytest.approx(float(arrays["mlm_loss"]), rel=1e-5),
        "sentence_order_loss": pytest.approx(
            float(arrays["sop_loss"]), rel=1e-5
        ),
    }


@pytest.mark.parametrize("case", ["zero_weights", "tiny_weight"])
def test_the_loss_of_few_targets_equals_the_recorded_one(case, recorded):
    task, batch, arrays = recorded
    weights = (
        tf.zeros_like(batch["masked_lm_weights"])
        if case == "zero_weights"
        else tf.constant(arrays["tiny_weight/masked_lm_weights"])
    )
    batch = batch | {"masked_lm_weights": weights}

    _, sums = task.loss(batch, task.loss_denominators(batch), seed=None)

    loss = task.training_scores(as_floats(sums))["masked_lm_loss"]
    wanted = float(arrays[f"{case}/mlm_loss"])
    assert loss == pytest.approx(wanted, rel=1e-5)


def test_evaluation_equals_the_recorded_one(recorded):
    task, batch, arrays = recorded

    scores = evaluate(task, batch)

    assert scores == {
        name: pytest.approx(float(arrays[f"eval/{name}"]), rel=1e-5)
        for name in (
            "masked_lm_loss",
            "masked_lm_accuracy",
            "sentence_order_loss",
            "sentence_order_accuracy",
        )
    }


def test_sums_count_examples_and_tokens_without_padding():
    task = PretrainingTask(TINY)

    _, sums = task.loss(BATCH, task.loss_denominators(BATCH), seed=None)

    assert float(sums["examples"]) == 2
    assert float(sums["tokens"]) == 9
    assert float(sums["masked_lm_weight"]) == 3


def test_rows_that_fill_up_a_batch_count_nowhere():
    task = PretrainingTask(TINY)
    first = {name: value[:1] for name, value in BATCH.items()}
    weights = tf.constant([1.0, 0.0])
    padded = BATCH | {
        "example_weights": weights,
        "masked_lm_weights": BATCH["masked_lm_weights"] * weights[:, None],
    }

    _, alone = task.loss(first, task.loss_denominators(first), seed=None)
    _, filled = task.loss(padded, task.loss_denominators(padded), seed=None)

    assert as_floats(filled) == pytest.approx(as_floats(alone), rel=1e-6)


def test_shares_of_the_loss_add_up_to_that_of_the_whole_batch():
    # The rows have 1 and 2 targets, so a mean of means would be wrong.
    task = PretrainingTask(TINY)
    loss_denominators = task.loss_denominators(BATCH)

    whole, _ = task.loss(BATCH, loss_denominators, seed=None)
    shares = [
        task.loss(
            {name: value[row : row + 1] for name, value in BATCH.items()},
            loss_denominators,
            seed=None,
        )[0]
        for row in range(2)
    ]

    assert float(sum(shares)) == pytest.approx(float(whole), rel=1e-6)


@pytest.mark.parametrize(
    ("objective", "kept", "dropped"),
    [
        ("mlm", "masked_lm", "sentence_order"),
        ("sop", "sentence_order", "masked_lm"),
    ],
)
def test_one_objective_alone_has_its_own_loss_and_head(
    objective, kept, dropped
):
    both = PretrainingTask(TINY, seed=4)
    one = PretrainingTask(TINY, seed=4, objectives=[objective])

    loss, sums = one.loss(BATCH, one.loss_denominators(BATCH), seed=None)
    _, sums_of_both = both.loss(BATCH, both.loss_denominators(BATCH), seed=None)

    assert set(sums) == set(one.total_names)
    assert not [name for name in sums if name.startswith(dropped)]
    wanted = both.training_scores(as_floats(sums_of_both))[f"{kept}_loss"]
    assert float(loss) == pytest.approx(wanted, rel=1e-6)
    assert one.training_scores(as_floats(sums)) == {
        "loss": pytest.approx(wanted, rel=1e-6),
        f"{kept}_loss": pytest.approx(wanted, rel=1e-6),
    }
    assert set(evaluate(one, BATCH)) == {f"{kept}_loss", f"{kept}_accuracy"}
    paths = [variable.path for variable in one.model.trainable_variables]
    assert not [path for path in paths if path.startswith(dropped)]


def test_dropout_acts_with_a_seed_only():
    task = PretrainingTask(TINY)

    def loss(seed):
        seed = None if seed is None else tf.constant([seed, 0])
        return float(
            task.loss(BATCH, task.loss_denominators(BATCH), seed=seed)[0]
        )

    assert loss(None) == loss(None)
    assert loss(1) == loss(1)
    assert len({loss(None), loss(1), loss(2)}) == 3


def test_no_target_at_all_evaluates_to_zero():
    task = PretrainingTask(TINY)
    nothing = dict.fromkeys(task.total_names, 0.0)

    assert set(task.evaluation_scores(nothing).values()) == {0.0}


@pytest.mark.parametrize("objectives", [[], ["mlm", "nsp"]])
def test_other_objectives_are_refused(objectives):
    with pytest.raises(ValueError, match="`objectives` must be one or more"):
        PretrainingTask(TINY, objectives=objectives)
