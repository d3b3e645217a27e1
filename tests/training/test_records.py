"""The records of a job, made or stored."""

import dataclasses
import os

import pytest
import tensorflow as tf

from albert_tf.training import records
from albert_tf.training.run_config import ExampleSet


@pytest.fixture
def job(untrained_job):
    stored = dataclasses.replace(untrained_job.train_set, is_stored=True)
    return dataclasses.replace(untrained_job, train_set=stored)


def open_sets(job):
    return records.open_sets(job, tf.distribute.get_strategy())


def test_records_are_stored_if_their_set_says_so(job):
    sets = open_sets(job)

    assert sets.train.columns.num_records == 5
    assert [one.columns.num_records for one in sets.evaluation] == [3]
    assert sets.prediction == ()
    (name,) = os.listdir(os.path.join(job.output_dir, "cache"))
    assert name.startswith("words-train-")
    assert job.data.calls == 2
    assert open_sets(job).train.key == sets.train.key
    assert job.data.calls == 3  # those of the evaluation


def test_a_folder_for_the_records_may_be_given(job, tmp_path):
    settings = dataclasses.replace(
        job.finetuning, cached_dir=str(tmp_path / "c")
    )
    open_sets(dataclasses.replace(job, finetuning=settings))

    assert len(os.listdir(tmp_path / "c")) == 1
    assert not os.path.exists(job.output_dir)


def test_a_set_may_have_data_of_its_own(job, word_data, sentences):
    other = word_data(language="other")
    one = ExampleSet(examples=sentences(3), name="ax", data=other)

    sets = open_sets(dataclasses.replace(job, predict_sets=(one,)))

    assert sets.prediction[0].data is other
    assert sets.prediction[0].key != sets.evaluation[0].key


def test_ids_must_not_stand_for_two_examples(job, sentences):
    twice = ExampleSet(examples=[*sentences(3), sentences(3)[1]])

    with pytest.raises(
        ValueError, match="1 ids of the train examples .* first is '0-1'"
    ):
        open_sets(dataclasses.replace(job, train_set=twice))


def test_a_set_without_records_is_named(job):
    with pytest.raises(
        ValueError, match="words, eval: The examples give no record"
    ):
        open_sets(
            dataclasses.replace(job, eval_sets=(ExampleSet(examples=()),))
        )
