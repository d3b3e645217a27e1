"""How every script starts, answers and fails."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = '''"""Counts to a number."""

import logging
import os

from absl import flags

import run_flags


def define_flags():
    flags.DEFINE_integer("number", 3, "How far to count.", lower_bound=1)
    flags.DEFINE_enum("failure", None, {failures}, "What goes wrong.")


def main(values):
    logging.getLogger("counter").warning("counting")
    logging.getLogger("counter").info("no one asked")
    logging.getLogger("albert_tf.data").info("read on")
    with run_flags.quiet_import():
        os.write(2, b"chatter\\n")
        if values.failure == "dependency":
            raise ImportError("a library is missing")
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
FAILURES = [
    "value",
    "file",
    "told",
    "import",
    "dependency",
    "empty",
    "bug",
    "interrupt",
]


@pytest.fixture
def command(tmp_path):
    """Starts the script."""
    script = tmp_path / "count.py"
    script.write_text(SCRIPT.format(failures=FAILURES), encoding="utf-8")

    def start(*arguments, **environment):
        return subprocess.Popen(
            [sys.executable, script, *arguments],
            env={"PYTHONPATH": str(ROOT), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture
def run(command):
    """Runs the script to its end."""

    def run_with(*arguments, **environment):
        process = command(*arguments, **environment)
        texts = process.communicate()
        return subprocess.CompletedProcess((), process.returncode, *texts)

    return run_with


def test_flags_reach_main_and_success_ends_with_0(run):
    result = run("--number=4")

    assert (result.returncode, result.stdout) == (0, "1 2 3 4\n")


def test_help_tells_what_the_script_is_for_and_each_flag(run):
    result = run("--help")

    assert result.returncode == 0
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


@pytest.mark.parametrize("argument", ["--help", "--number=9"])
def test_a_reader_that_has_had_enough_is_no_error(argument, command):
    with command(argument) as script:
        script.stdout.close()
        messages = script.stderr.read()

    assert "Traceback" not in messages
    assert "error" not in messages
    assert script.returncode == 141


def test_control_c_ends_with_130(run):
    result = run("--failure=interrupt")

    assert result.returncode == 130
    assert result.stderr.endswith("error: interrupted\n")


def test_the_log_goes_to_stderr(run):
    result = run()

    assert "counting" in result.stderr
    assert "counting" not in result.stdout


def test_our_log_shows_and_that_of_others_only_from_warnings_on(run):
    result = run()

    assert "read on" in result.stderr
    assert "no one asked" not in result.stderr


@pytest.mark.parametrize(
    ("verbosity", "ours", "others"), [(1, True, True), (-1, False, False)]
)
def test_verbosity_makes_the_log_longer_or_shorter(
    run, verbosity, ours, others
):
    result = run(f"--verbosity={verbosity}")

    assert ("read on" in result.stderr) == ours
    assert ("no one asked" in result.stderr) == others
    assert "counting" in result.stderr


def test_what_is_said_at_an_import_does_not_show(run):
    assert "chatter" not in run().stderr


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--failure=dependency"], {}),
        (["--verbosity=1"], {}),
        ([], {"TF_CPP_MIN_LOG_LEVEL": "0"}),
    ],
)
def test_what_is_said_at_an_import_shows_when_it_matters(
    run, arguments, environment
):
    assert "chatter\n" in run(*arguments, **environment).stderr
