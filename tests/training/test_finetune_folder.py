"""Whose a folder is, told without training; with training, in test_finetune."""

import dataclasses
import json
import os

import pytest

from albert_tf.training import finetune_folder
from albert_tf.training.finetune_options import (
    ExampleSet,
    FinetuningConfig,
    FinetuningJob,
)
from albert_tf.training.options import TrainingConfig


@pytest.fixture
def job(tiny_config, word_data, word_task, sentences, settings, tmp_path):
    return FinetuningJob(
        config=tiny_config(),
        training=TrainingConfig(num_train_steps=100),
        finetuning=FinetuningConfig(max_seq_length=16),
        optimizer=settings(),
        data=word_data(),
        make_task=word_task,
        output_dir=str(tmp_path / "run"),
        train_set=ExampleSet(examples=sentences(5)),
        eval_sets=(ExampleSet(examples=sentences(3)),),
    )


def leave(job, identity):
    """Leaves the mark of a run in the folder of a job."""
    os.makedirs(job.output_dir)
    with open(os.path.join(job.output_dir, "run.json"), "w") as file:
        json.dump(identity, file)


def test_a_new_folder_is_left_unmade(job):
    finetune_folder.check_folder(job)

    assert not os.path.exists(job.output_dir)


def test_the_folder_of_the_same_run_is_taken_whatever_its_records(job):
    leave(job, finetune_folder.run_identity(job, "made-before"))

    finetune_folder.check_folder(job)


def test_a_run_with_another_rate_is_another_run(job):
    leave(job, finetune_folder.run_identity(job, "made-before"))
    slower = dataclasses.replace(job.optimizer, learning_rate=1e-9)

    with pytest.raises(ValueError, match="learning_rate"):
        finetune_folder.check_folder(dataclasses.replace(job, optimizer=slower))


def test_a_start_that_is_not_there_is_told_before_records_are_made(job):
    job = dataclasses.replace(job, init_checkpoint="none/model.ckpt")

    with pytest.raises(FileNotFoundError, match=r"none/model\.ckpt"):
        finetune_folder.check_folder(job)


def test_nothing_to_use_is_told(job):
    with pytest.raises(ValueError, match="There are no trained weights in"):
        finetune_folder.check_folder(dataclasses.replace(job, train_set=None))
