import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load
from albert_tf.config import AlbertConfig
from albert_tf.tasks.pretraining.objectives import PretrainingTask

BATCH = {
    "input_ids": tf.constant([[2, 4, 6, 3, 0], [2, 7, 4, 8, 3]]),
    "input_mask": tf.constant([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]),
    "segment_ids": tf.zeros([2, 5], tf.int32),
    "masked_lm_positions": tf.constant([[1, 0, 0], [2, 3, 0]]),
    "masked_lm_ids": tf.constant([[9, 0, 0], [6, 8, 0]]),
    "masked_lm_weights": tf.constant([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]),
    "sentence_order_labels": tf.constant([0, 1]),
}


def as_floats(totals):
    return {name: float(value) for name, value in totals.items()}


def evaluate(task, batch):
    _, totals = task.loss(batch, task.loss_denominators(batch), seed=None)
    return task.evaluation_scores(as_floats(totals)).flat()


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


def test_losses_and_scores_equal_the_recorded_ones(recorded):
    task, batch, arrays = recorded

    loss, totals = task.loss(batch, task.loss_denominators(batch), seed=None)

    assert float(loss) == pytest.approx(float(arrays["total_loss"]), rel=1e-5)
    totals = as_floats(totals)
    for scores, recorded_names in (
        (
            task.training_scores(totals),
            {
                "loss": "total_loss",
                "masked_lm_loss": "mlm_loss",
                "sentence_order_loss": "sop_loss",
            },
        ),
        (
            task.evaluation_scores(totals).flat(),
            {
                name: f"eval/{name}"
                for name in (
                    "masked_lm_loss",
                    "masked_lm_accuracy",
                    "sentence_order_loss",
                    "sentence_order_accuracy",
                )
            },
        ),
    ):
        assert scores == {
            name: pytest.approx(float(arrays[key]), rel=1e-5)
            for name, key in recorded_names.items()
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

    _, totals = task.loss(batch, task.loss_denominators(batch), seed=None)

    loss = task.training_scores(as_floats(totals))["masked_lm_loss"]
    wanted = float(arrays[f"{case}/mlm_loss"])
    assert loss == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize(
    ("objective", "kept", "dropped"),
    [
        ("mlm", "masked_lm", "sentence_order"),
        ("sop", "sentence_order", "masked_lm"),
    ],
)
def test_one_objective_alone_has_its_own_loss_and_head(
    objective, kept, dropped, tiny_config
):
    both = PretrainingTask(tiny_config, seed=4)
    one = PretrainingTask(tiny_config, seed=4, objectives=[objective])

    loss, totals = one.loss(BATCH, one.loss_denominators(BATCH), seed=None)
    _, totals_of_both = both.loss(
        BATCH, both.loss_denominators(BATCH), seed=None
    )

    assert set(totals) == set(one.total_names)
    assert not [name for name in totals if name.startswith(dropped)]
    wanted = both.training_scores(as_floats(totals_of_both))[f"{kept}_loss"]
    assert float(loss) == pytest.approx(wanted, rel=1e-6)
    assert one.training_scores(as_floats(totals)) == {
        "loss": pytest.approx(wanted, rel=1e-6),
        f"{kept}_loss": pytest.approx(wanted, rel=1e-6),
    }
    assert set(evaluate(one, BATCH)) == {f"{kept}_loss", f"{kept}_accuracy"}
    paths = [variable.path for variable in one.model.trainable_variables]
    assert not [path for path in paths if path.startswith(dropped)]


def test_other_objectives_are_refused(tiny_config):
    with pytest.raises(ValueError, match="`objectives` must be one of"):
        PretrainingTask(tiny_config, objectives=["mlm", "nsp"])
