"""Schedules as text, and the phases that they make together."""

import re

import pytest

from albert_tf.training import phases
from albert_tf.training.phases import Phase

LAST = Phase(first_step=0, depth=12, max_seq_length=512, batch_size=64)


def merge(**schedules):
    return phases.merge(schedules, LAST, num_train_steps=100)


def values_of(found):
    return [
        (one.first_step, one.depth, one.max_seq_length, one.batch_size)
        for one in found
    ]


def test_a_run_without_schedules_has_one_phase():
    assert merge() == merge(depth_schedule="", batch_schedule="") == (LAST,)


def test_phases_begin_wherever_a_schedule_changes():
    found = merge(
        depth_schedule="3@0,6@30,12@60",
        length_schedule="128@0,512@90",
        batch_schedule="32@0,64@30",
    )

    assert values_of(found) == [
        (0, 3, 128, 32),
        (30, 6, 128, 64),
        (60, 12, 128, 64),
        (90, 12, 512, 64),
    ]


def test_a_schedule_may_be_in_percent_of_the_steps():
    assert merge(depth_schedule="6@0,12@60%", batch_schedule="8@0%,64@33%") == (
        merge(depth_schedule="6@0,12@60", batch_schedule="8@0,64@33")
    )


@pytest.mark.parametrize(
    ("step", "index"), [(0, 0), (29, 0), (30, 1), (31, 1), (99, 2)]
)
def test_a_step_is_in_the_phase_that_began_last(step, index):
    found = merge(depth_schedule="3@0,6@30,12@60")

    assert phases.index_at(found, step) == index


def test_changing_fields_are_what_differs_between_phases():
    found = merge(depth_schedule="3@0,12@60", batch_schedule="64@0")

    assert phases.changing_fields(found, 0) == {"depth": 3}
    assert phases.changing_fields((LAST,), 0) == {}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("depth_schedule", "3-0", "must be one or more of VALUE@STEP"),
        ("depth_schedule", "3@0,", "must be one or more of VALUE@STEP"),
        ("depth_schedule", "3@0, 12@5", "must be one or more of VALUE@STEP"),
        ("depth_schedule", "-3@0,12@5", "must be one or more of VALUE@STEP"),
        ("depth_schedule", "3@1,12@5", "must begin at step 0"),
        ("depth_schedule", "3@0,6@9,12@9", "have a later step"),
        ("depth_schedule", "3@0,3@9,12@10", "another value"),
        ("depth_schedule", "3@0,6@9", "must end with num_hidden_layers=12"),
        ("length_schedule", "128@0", "must end with max_seq_length=512"),
        ("batch_schedule", "128@0", "must end with train_batch_size=64"),
        ("depth_schedule", "0@0,12@9", "at least 1 and at most 12"),
        ("depth_schedule", "13@0,12@9", "at least 1 and at most 12"),
        ("batch_schedule", "0@0,64@9", r"must be at least 1\. Received"),
        ("depth_schedule", "3@0,12@100", "Raise num_train_steps=100"),
    ],
)
def test_an_impossible_schedule_is_refused(name, text, message):
    received = re.escape(f"Received: {name}={text!r}.")

    with pytest.raises(ValueError, match=f"`{name}`.*{message}") as error:
        merge(**{name: text})
    assert re.search(received, str(error.value))
    assert "\n" not in str(error.value)
