"""The records of a run, made or cached."""

import dataclasses
import os

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import feature_cache
from albert_tf.training import devices, records
from albert_tf.training.workers import Workers
from tests.training import runs


@pytest.fixture
def small(job):
    """A job with 5 training and 3 evaluation examples, and its data."""
    data = runs.WordData()
    one = job(train=runs.example_set(5, data=data))
    return one.replace(evaluation=(runs.example_set(3, data=data),)), data


def open_sets(job):
    alone = Workers(tf.distribute.get_strategy())
    return records.open_sets(job.config, job.sets, alone)


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


def test_records_do_not_depend_on_names_of_columns(small):
    one, _ = small
    found = {
        str(settings): open_sets(
            one.replace(data=runs.WordData(**settings))
        ).train.fingerprint
        for settings in ({}, {"text_columns": ["a"]}, {"labels": ["a"]})
    }
    without, named, other = found.values()

    # Earlier versions did not record them.
    assert named == without != other


class Windows(runs.WordData):
    """Two records for each example."""

    def records(self, examples, *, is_training):
        for record in super().records(examples, is_training=is_training):
            yield from (record, record)


@pytest.mark.parametrize(
    ("num_train_steps", "share", "is_warned"),
    [(1, "30%", True), (2, "60%", False), (9, "100%", False)],
)
def test_the_share_of_the_windows_that_a_run_sees_is_told(
    num_train_steps, share, is_warned, job, caplog
):
    caplog.set_level("INFO")
    one = job(
        train=runs.example_set(5, data=Windows()),
        num_train_steps=num_train_steps,
        train_batch_size=3,
    )

    open_sets(one)

    message = f"5 examples to train on have 10 records; {num_train_steps} steps"
    assert f"{message} of 3 see {share} of them." in caplog.text
    warning = "sees less than half of the 10 windows of its questions"
    assert (warning in caplog.text) == is_warned
    # Without windows, an epoch is an epoch.
    caplog.clear()
    open_sets(one.replace(train=runs.example_set(10)))
    assert "1 steps of 3 see 30%" in caplog.text or num_train_steps > 1
    assert warning not in caplog.text


def test_a_directory_for_the_records_may_be_given(small, tmp_path):
    one, _ = small

    open_sets(one.replace(cached_dir=str(tmp_path / "c")))

    assert len(os.listdir(tmp_path / "c")) == 2
    assert not os.path.exists(one.output_dir)


def test_a_set_may_have_data_of_its_own(small):
    one, _ = small
    other = runs.WordData(language="other")
    extra = runs.example_set(3, name="ax", data=other)

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
def test_a_set_that_cannot_be_used_is_named(changes, message, small):
    one, _ = small
    ((name, indices),) = changes.items()
    own = runs.example_set(3)
    vars(own)["examples"] = [own.examples[i] for i in indices]
    value = own if name == "train" else (own,)

    with pytest.raises(ValueError, match=message):
        open_sets(one.replace(**{name: value}))


@pytest.mark.parametrize(
    ("device", "jit_compile", "length", "expected"),
    [
        ("CPU", False, 50, None),
        ("CPU", True, 512, 64),
        ("GPU", False, 50, 8),
        ("GPU", True, 50, 64),
        ("GPU", True, 512, 64),
        ("TPU", False, 50, 50),
    ],
)
def test_batches_are_padded_to_buckets_or_on_a_tpu_to_one_length(
    device, jit_compile, length, expected, job, monkeypatch
):
    monkeypatch.setattr(devices, "device_type", lambda _: device)
    config = job(
        albert_config=runs.config(max_position_embeddings=512),
        max_seq_length=length,
        jit_compile=jit_compile,
    ).config

    padding = records.padding_for(config, tf.distribute.get_strategy())

    assert padding.bucket_width == expected
    assert padding.max_seq_length == length
    assert padding.is_compiled == jit_compile
    is_static = expected is not None and expected >= length
    assert padding.static_length == (length if is_static else None)


def test_each_seed_has_an_order_of_its_own(small):
    config, strategy = small[0].config, tf.distribute.get_strategy()
    records_set = open_sets(small[0]).train

    def first_batches(seed):
        found = records.training_batches(
            dataclasses.replace(config, random_seed=seed),
            records_set,
            strategy,
            records.padding_for(config, strategy),
            *config.phases,
            position=0,
        )
        return [one["input_ids"].numpy().tolist() for one in found.take(3)]

    assert first_batches(1) == first_batches(1) != first_batches(2)


def test_a_sample_is_some_of_the_records_and_always_the_same(monkeypatch):
    data = runs.WordData()
    columns = feature_cache.collect(
        data.records(runs.sentences(20), is_training=True),
        data.array_specs,
        max_seq_length=runs.S,
    )
    whole = records.sample(columns)
    for name, values in columns.values.items():
        np.testing.assert_array_equal(whole.values[name], values)

    monkeypatch.setattr(records, "SAMPLE_SIZE", 7)
    part, again = records.sample(columns), records.sample(columns)

    def rows(columns):
        return {
            tuple(columns.padded([i], runs.S)["input_ids"][0])
            for i in range(columns.num_records)
        }

    assert part.num_records == 7
    assert rows(part) < rows(columns)
    np.testing.assert_array_equal(
        part.values["input_ids"], again.values["input_ids"]
    )
