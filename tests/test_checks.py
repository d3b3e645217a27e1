import math
import re

import pytest

from albert_tf import checks


@pytest.mark.parametrize(
    ("value", "limits", "wanted"),
    [
        (-1, {}, "at least 0. Received: size=-1"),
        (10, {"at_most": 9}, "at least 0 and at most 9. Received: size=10"),
        (1.0, {}, "whole number of at least 0. Received: size=1.0"),
        (True, {}, "Received: size=True"),
    ],
)
def test_invalid_integers_are_errors(value, limits, wanted):
    checks.check_integer("size", 9, **limits)
    with pytest.raises(ValueError, match=re.escape(wanted)):
        checks.check_integer("size", value, **limits)


@pytest.mark.parametrize(
    ("value", "limits", "wanted"),
    [
        (0, {"above": 0}, "finite number above 0. Received: rate=0"),
        (1, {"at_least": 0, "below": 1}, "at least 0 and below 1."),
        (2, {"at_most": 1}, "at most 1. Received: rate=2"),
        (math.nan, {}, "`rate` must be a finite number. Received: rate=nan"),
        ("1", {}, "Received: rate='1'"),
    ],
)
def test_invalid_numbers_are_errors(value, limits, wanted):
    checks.check_number("rate", 0.5, **limits)
    with pytest.raises(ValueError, match=re.escape(wanted)):
        checks.check_number("rate", value, **limits)


def test_a_choice_is_one_of_the_names():
    checks.check_choice("task", "race", ("squad", "race"))

    with pytest.raises(
        ValueError, match="`task` must be one of squad, race. .*task='glue'"
    ):
        checks.check_choice("task", "glue", ("squad", "race"))


def test_equal_settings_have_no_differences():
    stored = {"a": 1, "lengths": [1, 2], "inner": {"b": None}}
    current = {"a": 1, "lengths": (1, 2), "inner": {}}

    assert checks.differences(stored, current) == []
