"""How every script starts, answers and fails."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = '''"""Counts to a number."""

import logging

from absl import flags

import run_flags


def define_flags():
    flags.DEFINE_integer("number", 3, "How far to count.", lower_bound=1)
    flags.DEFINE_enum("failure", None, {failures}, "What goes wrong.")


def main(values):
    logging.getLogger("counter").warning("counting")
    if values.failure:
        raise {{
            "value": ValueError("`number` is\\n    too large"),
            "file": FileNotFoundError(2, "No such file", "corpus.txt"),
            "told": FileNotFoundError("No file matches 'corpus*'."),
            "import": ImportError("install the extra [beam]"),
            "empty": ValueError(),
            "bug": RuntimeError("a bug"),
            "interrupt": KeyboardInterrupt(),
        }}[values.failure]
    print(*range(1, values.number + 1))


run_flags.run_script(define_flags, main)
'''
FAILURES = ["value", "file", "told", "import", "empty", "bug", "interrupt"]


@pytest.fixture
def run(tmp_path):
    script = tmp_path / "count.py"
    script.write_text(SCRIPT.format(failures=FAILURES), encoding="utf-8")

    def run_with(*arguments):
        return subprocess.run(
            [sys.executable, script, *arguments],
            env={"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )

    return run_with


def test_flags_reach_main_and_success_ends_with_0(run):
    result = run("--number=4")

    assert (result.returncode, result.stdout) == (0, "1 2 3 4\n")


def test_help_tells_what_the_script_is_for_and_each_flag(run):
    result = run("--help")

    assert "Counts to a number." in result.stdout
    assert "--number: How far to count." in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--number=many", "error: flag --number=many: invalid literal"),
        ("--number=0", "error: flag --number=0: 0 is not a positive integer"),
        ("--nmber=4", "error: Unknown command line flag 'nmber'"),
        ("--failure=odd", "error: flag --failure=odd: value should be one of"),
        ("4", "error: unexpected argument '4'; flags look like --name=value"),
    ],
)
def test_a_flag_error_is_one_line_and_ends_with_1(run, argument, message):
    result = run(argument)

    assert result.returncode == 1
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        ("value", "error: `number` is too large\n"),
        ("file", "error: corpus.txt: No such file\n"),
        ("told", "error: No file matches 'corpus*'.\n"),
        ("import", "error: install the extra [beam]\n"),
        ("empty", "error: ValueError\n"),
    ],
)
def test_what_a_user_can_mend_is_one_line_and_ends_with_1(run, failure, line):
    result = run(f"--failure={failure}")

    assert result.returncode == 1
    assert result.stderr.endswith(line)
    assert "Traceback" not in result.stderr


def test_verbosity_1_shows_the_traceback(run):
    result = run("--failure=value", "--verbosity=1")

    assert result.returncode == 1
    assert "Traceback" in result.stderr


def test_a_bug_of_ours_is_not_hidden(run):
    result = run("--failure=bug")

    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert "RuntimeError: a bug" in result.stderr


def test_control_c_ends_with_130(run):
    result = run("--failure=interrupt")

    assert result.returncode == 130
    assert result.stderr.endswith("error: interrupted\n")


def test_the_log_goes_to_stderr(run):
    result = run()

    assert "counting" in result.stderr
    assert "counting" not in result.stdout
