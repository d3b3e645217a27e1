import math
import re

import pytest

from albert_tf import checks

INTEGER, NUMBER = checks.check_integer, checks.check_number


@pytest.mark.parametrize(
    ("check", "value", "limits", "wanted"),
    [
        (INTEGER, -1, {}, "at least 0. Received: x=-1"),
        (INTEGER, 10, {"at_most": 9}, "at most 9. Received: x=10"),
        (INTEGER, 1.0, {}, "whole number of at least 0. Received: x=1.0"),
        (INTEGER, True, {}, "Received: x=True"),
        (NUMBER, 0, {"above": 0}, "finite number above 0. Received: x=0"),
        (NUMBER, 1, {"at_least": 0, "below": 1}, "at least 0 and below 1."),
        (NUMBER, 2, {"at_most": 1}, "at most 1. Received: x=2"),
        (NUMBER, math.nan, {}, "`x` must be a finite number. Received: x=nan"),
        (NUMBER, "1", {}, "Received: x='1'"),
    ],
)
def test_invalid_numbers_are_errors(check, value, limits, wanted):
    check("x", 9 if check is INTEGER else 0.5, **limits)
    with pytest.raises(ValueError, match=re.escape(wanted)):
        check("x", value, **limits)


def test_a_choice_is_one_of_the_names():
    checks.check_choice("task", "race", ("squad", "race"))
    with pytest.raises(ValueError, match="one of squad, race. .*task='glue'"):
        checks.check_choice("task", "glue", ("squad", "race"))


def test_equal_settings_have_no_differences():
    stored = {"a": 1, "lengths": [1, 2], "inner": {"b": None}}
    current = {"a": 1, "lengths": (1, 2), "inner": {}, "unused": False}

    assert checks.differences(stored, current) == []


def test_zero_is_another_setting_than_none():
    assert checks.differences({"ratio": 0}, {"ratio": None}) == [
        "ratio=0 (now None)"
    ]
