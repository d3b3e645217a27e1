"""How far a run is, by updates or by time."""

import pytest

from albert_tf.training import progress
from albert_tf.training.progress import Progress

BY_UPDATES = Progress(num_train_steps=100, seconds=None)
BY_TIME = Progress(num_train_steps=100, seconds=50.0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("24h", 86_400), ("90m", 5400), ("30s", 30), ("0.5h", 1800)],
)
def test_a_duration_is_a_number_and_its_unit(text, seconds):
    assert progress.seconds_of("time_budget", text) == seconds


@pytest.mark.parametrize(
    "text", ["24", "h", "0s", "-1h", "1d", "1h30m", "1 h", "9" * 400 + "h"]
)
def test_other_durations_are_refused(text):
    with pytest.raises(ValueError, match=f"such as 24h.*time_budget='{text}'"):
        progress.seconds_of("time_budget", text)


def test_without_a_budget_each_update_is_a_step():
    assert BY_UPDATES.step(7, seconds=9.0) == 7
    assert BY_UPDATES.updates_until(100, 7, 9.0, None) == 93


@pytest.mark.parametrize(
    ("seconds", "step"),
    [(0.0, 0), (0.6, 1), (25.0, 50), (50.0, 100), (60, 100)],
)
def test_with_a_budget_the_step_follows_the_clock(seconds, step):
    assert BY_TIME.step(7, seconds) == step


@pytest.mark.parametrize(
    ("seconds_per_update", "number"), [(None, 1), (2.0, 7), (0.3, 50), (99, 1)]
)
def test_updates_fit_into_the_time_until_a_step(seconds_per_update, number):
    # Step 50 is at 25 seconds, 15 from now.
    assert BY_TIME.updates_until(50, 3, 10.0, seconds_per_update) == number
