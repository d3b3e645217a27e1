"""Whose a folder is, told without training; with training, in test_finetune."""

import dataclasses
import json
import os

import pytest

from albert_tf.training import finetune_folder


def leave(job):
    """Leaves the mark of a job's run in its folder."""
    os.makedirs(job.output_dir)
    with open(os.path.join(job.output_dir, "run.json"), "w") as file:
        json.dump(finetune_folder.run_identity(job, "made before"), file)


def test_a_new_folder_is_left_unmade(untrained_job):
    finetune_folder.check_folder(untrained_job)

    assert not os.path.exists(untrained_job.output_dir)


def test_the_folder_of_the_same_run_is_taken_whatever_its_records(
    untrained_job,
):
    leave(untrained_job)

    finetune_folder.check_folder(untrained_job)


def test_a_run_with_another_rate_is_another_run(untrained_job):
    leave(untrained_job)
    slower = dataclasses.replace(untrained_job.optimizer, learning_rate=1e-9)

    with pytest.raises(ValueError, match="learning_rate"):
        finetune_folder.check_folder(
            dataclasses.replace(untrained_job, optimizer=slower)
        )


def test_a_start_that_is_not_there_is_told_before_records_are_made(
    untrained_job,
):
    job = dataclasses.replace(untrained_job, init_checkpoint="none/model.ckpt")

    with pytest.raises(FileNotFoundError, match=r"none/model\.ckpt"):
        finetune_folder.check_folder(job)


def test_nothing_to_use_is_told(untrained_job):
    with pytest.raises(ValueError, match="There are no trained weights in"):
        finetune_folder.check_folder(
            dataclasses.replace(untrained_job, train_set=None)
        )


def test_dropout_does_not_matter_for_weights_that_are_only_used(
    untrained_job, tiny_config
):
    leave(untrained_job)
    used = dataclasses.replace(
        untrained_job,
        train_set=None,
        config=tiny_config(hidden_dropout_prob=0.25),
    )

    with pytest.raises(ValueError, match="There are no trained weights in"):
        finetune_folder.check_folder(used)
    wider = dataclasses.replace(used, config=tiny_config(intermediate_size=99))
    with pytest.raises(ValueError, match=r"with config\.intermediate_size"):
        finetune_folder.check_folder(wider)
