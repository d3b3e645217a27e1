"""The data half of a task.

What the loop asks of a task's two halves.
"""

import subprocess
import sys

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.tasks import task
from albert_tf.tasks.pretraining import PretrainingTask
from albert_tf.tasks.task import Task

CONFIG = AlbertConfig(
    vocab_size=11,
    embedding_size=4,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=6,
    max_position_embeddings=5,
)


def test_pretraining_is_a_task():
    pretraining: Task = PretrainingTask(CONFIG)

    promised = {*vars(Task), *Task.__annotations__}
    for name in (name for name in promised if not name.startswith("_")):
        assert hasattr(pretraining, name), name


def test_what_a_task_returns_has_the_keys_and_shapes_it_promises():
    task: Task = PretrainingTask(CONFIG)
    batch = {
        "input_ids": tf.constant([[2, 4, 6, 3, 0], [2, 7, 4, 8, 3]]),
        "input_mask": tf.constant([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]),
        "segment_ids": tf.zeros([2, 5], tf.int32),
        "masked_lm_positions": tf.constant([[1, 0, 0], [2, 3, 0]]),
        "masked_lm_ids": tf.constant([[9, 0, 0], [6, 8, 0]]),
        "masked_lm_weights": tf.constant([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]),
        "sentence_order_labels": tf.constant([0, 1]),
    }

    loss_denominators = task.loss_denominators(batch)
    loss, sums = task.loss(batch, loss_denominators, seed=tf.constant([1, 2]))

    assert set(sums) == set(task.total_names)
    for value in [loss, *loss_denominators.values(), *sums.values()]:
        assert value.dtype == tf.float32
        assert value.shape == []
    scores = task.training_scores({k: float(v) for k, v in sums.items()})
    assert abs(scores["loss"] - float(loss)) < 1e-5


def test_a_data_half_names_its_records_scores_and_files():
    names = {name for name in vars(task.TaskData) if name[0] != "_"}

    assert names == {
        "name",
        "primary_metric",
        "array_specs",
        "settings",
        "vocab_size",
        "records",
        "scores",
        "write_predictions",
    }


def test_it_is_imported_without_tensorflow():
    code = (
        "import sys; import albert_tf.tasks.task; "
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_task_that_is_fine_tuned_is_a_task_that_has_outputs():
    assert task.Task in task.FinetuningTask.__mro__
    own = [n for n in vars(task.FinetuningTask) if n[0] != "_"]
    assert sorted(own) == ["outputs", "sequence_outputs"]


def test_both_halves_can_be_had_from_one_place():
    assert task.TaskData is task.TaskData
    assert set(task.__all__) <= set(vars(task))
