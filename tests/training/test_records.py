"""The records of a run, made or cached."""

import os

import pytest
import tensorflow as tf

from albert_tf.training import records


@pytest.fixture
def small(job, example_set, word_data):
    """A job with 5 training and 3 evaluation examples, and its data."""
    data = word_data()
    one = job(train=example_set(5, data=data))
    return one.replace(evaluation=(example_set(3, data=data),)), data


def open_sets(job):
    return records.open_sets(job.config, job.sets, tf.distribute.get_strategy())


def test_records_are_made_once_and_cached(small):
    one, data = small

    sets = open_sets(one)

    assert sets.train.columns.num_records == 5
    assert [own.columns.num_records for own in sets.evaluation] == [3]
    assert sets.prediction == ()
    names = sorted(os.listdir(os.path.join(one.output_dir, "cache")))
    assert [name[: len("words-train")] for name in names] == [
        "words-eval-",
        "words-train",
    ]
    assert data.calls == 2
    assert open_sets(one).train.fingerprint == sets.train.fingerprint
    assert data.calls == 2


def test_a_directory_for_the_records_may_be_given(small, tmp_path):
    one, _ = small

    open_sets(one.replace(cached_dir=str(tmp_path / "c")))

    assert len(os.listdir(tmp_path / "c")) == 2
    assert not os.path.exists(one.output_dir)


def test_a_set_may_have_data_of_its_own(small, word_data, example_set):
    one, _ = small
    other = word_data(language="other")
    extra = example_set(3, name="ax", data=other)

    sets = open_sets(one.replace(prediction=(*one.sets.evaluation, extra)))

    assert sets.prediction[0] is sets.evaluation[0]
    assert sets.prediction[1].data is other
    assert sets.prediction[1].fingerprint != sets.evaluation[0].fingerprint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": [0, 1, 1]}, "1 ids of the train examples .* first is '0-1'"),
        ({"evaluation": []}, "words, eval: The examples give no record"),
    ],
)
def test_a_set_that_cannot_be_used_is_named(
    changes, message, small, example_set
):
    one, _ = small
    ((name, indices),) = changes.items()
    own = example_set(3)
    vars(own)["examples"] = [own.examples[i] for i in indices]
    value = own if name == "train" else (own,)

    with pytest.raises(ValueError, match=message):
        open_sets(one.replace(**{name: value}))
