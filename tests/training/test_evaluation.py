import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import load
from albert_tf.config import AlbertConfig
from albert_tf.tasks.pretraining import PretrainingTask
from albert_tf.training import distribution, evaluation

SCORES = (
    "masked_lm_loss",
    "masked_lm_accuracy",
    "sentence_order_loss",
    "sentence_order_accuracy",
)


def one_device(task):
    return evaluation.Evaluator(task, tf.distribute.get_strategy())


def test_scores_equal_the_recorded_ones_however_the_set_is_cut(shared_data):
    folder = shared_data / "golden" / "model_base"
    task = PretrainingTask(
        AlbertConfig.from_json_file(folder / "albert_config.json")
    )
    load.load_checkpoint(task.model, folder)
    arrays = np.load(folder / "golden.npz")
    names = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions")
    names += ("masked_lm_ids", "masked_lm_weights", "sentence_order_labels")
    rows = tf.data.Dataset.from_tensor_slices({n: arrays[n] for n in names})
    wanted = {
        name: pytest.approx(float(arrays[f"eval/{name}"]), rel=1e-5)
        for name in SCORES
    }

    # The three sequences have 5, 3 and 1 targets.
    for batch_size in (3, 2, 1):
        batches = rows.batch(batch_size)
        assert one_device(task).run(batches) == wanted


@pytest.fixture
def records(tiny_batches):
    """Six examples as two batches, and as one and a half of four rows."""
    rows = {k: v[0] for k, v in tiny_batches(1, size=6).items()}
    whole = rows | {"example_weights": np.ones(6, "float32")}
    padded = {
        name: np.concatenate([values, values[:2]])
        for name, values in whole.items()
    }
    for name in ("example_weights", "masked_lm_weights"):
        padded[name][6:] = 0
    return (
        tf.data.Dataset.from_tensor_slices(whole).batch(3),
        tf.data.Dataset.from_tensor_slices(padded).batch(4),
    )


def test_rows_that_fill_up_the_last_batch_do_not_count(records, tiny_config):
    whole, padded = records
    evaluator = one_device(PretrainingTask(tiny_config()))

    assert evaluator.run(padded) == pytest.approx(
        evaluator.run(whole), rel=1e-5
    )


def test_two_replicas_give_the_scores_of_one(
    records, tiny_config, two_replicas
):
    whole, _ = records
    alone = one_device(PretrainingTask(tiny_config())).run(whole)
    with two_replicas.scope():
        task = PretrainingTask(tiny_config())
    evaluator = evaluation.Evaluator(task, two_replicas)

    together = evaluator.run(
        distribution.distribute(two_replicas, lambda *_: whole)
    )

    assert together == pytest.approx(alone, rel=1e-5)


def test_an_evaluation_drops_nothing_and_changes_no_weight(
    records, tiny_config
):
    task = PretrainingTask(tiny_config(dropout=0.5))
    before = [np.array(v) for v in task.model.trainable_variables]
    evaluator = one_device(task)

    assert evaluator.run(records[0]) == evaluator.run(records[0])
    for old, variable in zip(
        before, task.model.trainable_variables, strict=True
    ):
        np.testing.assert_array_equal(old, variable)


def test_nothing_to_evaluate_is_an_error(tiny_config):
    evaluator = one_device(PretrainingTask(tiny_config()))

    with pytest.raises(ValueError, match="nothing to evaluate: no records"):
        evaluator.run([])
