import sys

import pytest

from benchmarks import planner
from tests import tiny


@pytest.fixture
def plan(monkeypatch, capsys):
    """Runs the command; returns what it prints, by name."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["planner.py", *arguments])
        planner.main()
        lines = capsys.readouterr().out.splitlines()
        return {line[:32].strip(): line[33:] for line in lines}

    return run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config=nope"], "--config=nope is neither a file nor a published"),
        (["--length=-1"], "--length must be above 0. Received: -1"),
        (["--network=nan"], "--network must be above 0. Received: nan"),
        (["--gpus=3"], "--batch must be a multiple of --gpus"),
        (["--peak=40"], "--peak and --memory go together"),
    ],
)
def test_what_cannot_be_planned_is_one_line(plan, arguments, message):
    with pytest.raises(SystemExit, match=f"^error: {message}"):
        plan(*arguments)


def test_config_and_device_may_be_ones_own(plan, tmp_path):
    path = tmp_path / "config.json"
    tiny.config().to_json_file(str(path))

    named = plan("--device=t4-16", f"--config={path}", "--batch=8")
    # The figures of a T4's data sheet.
    own = plan("--peak=65", "--memory=16", f"--config={path}", "--batch=8")

    assert named.pop("--precision") == "float16"
    assert own.pop("--precision") == "16 bits"
    assert own == named
