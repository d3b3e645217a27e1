"""What the loop asks of a task's two halves."""

from albert_tf.tasks import finetuning, task, task_data


def test_a_task_that_is_fine_tuned_is_a_task_that_has_outputs():
    assert task.Task in finetuning.FinetuningTask.__mro__
    own = [n for n in vars(finetuning.FinetuningTask) if n[0] != "_"]
    assert sorted(own) == ["outputs", "sequence_outputs"]


def test_both_halves_can_be_had_from_one_place():
    assert finetuning.TaskData is task_data.TaskData
    assert set(finetuning.__all__) <= set(vars(finetuning))
