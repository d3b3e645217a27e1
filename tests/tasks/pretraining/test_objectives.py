import pytest
import tensorflow as tf

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
