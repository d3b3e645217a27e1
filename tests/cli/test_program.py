"""How every command starts, logs and ends."""

import pathlib
import subprocess
import sys

import pytest

from albert_tf.cli import program

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = """
import logging
import os

from absl import flags

from albert_tf.cli import program


def define_flags():
    flags.DEFINE_integer("number", 3, "How far to count.", lower_bound=1)
    flags.DEFINE_enum("failure", None, {failures}, "What goes wrong.")


def main(values):
    logging.getLogger("counter").warning("counting")
    logging.getLogger("counter").info("of another library")
    logging.getLogger("albert_tf.data").info("read on")
    with program.quiet_import():
        os.write(2, b"chatter\\n")
        if values.failure == "dependency":
            raise ImportError("a library is missing")
    if values.failure:
        raise {{
            "value": ValueError("`number` is\\n    too large"),
            "file": FileNotFoundError(2, "No such file", "corpus.txt"),
            "import": ImportError("install the extra [beam]"),
            "bug": RuntimeError("a bug"),
            "interrupt": KeyboardInterrupt(),
        }}[values.failure]
    print(*range(1, values.number + 1))
    return 3 if values.number == 7 else None


program.run(define_flags, main, description="Counts to a number.")
"""
FAILURES = [
    "value",
    "file",
    "import",
    "dependency",
    "bug",
    "interrupt",
]


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "count.py"
    path.write_text(SCRIPT.format(failures=FAILURES), encoding="utf-8")
    return path


@pytest.fixture
def run(run_before_imports, script):
    """Runs the script to its end."""

    def run_with(*arguments, before=""):
        return run_before_imports(
            script, *arguments, folder=script.parent, before=before
        )

    return run_with


def test_flags_reach_main_which_decides_the_exit_code(run):
    result = run("--number=4")

    assert (result.returncode, result.stdout) == (0, "1 2 3 4\n")
    assert run("--number=7").returncode == 3


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--number=many", "error: flag --number=many: invalid literal"),
        ("--nmber=4", "error: Unknown command line flag 'nmber'"),
        ("4", "error: unexpected argument '4'; flags look like --name=value"),
    ],
)
def test_a_flag_error_is_one_line_and_ends_with_1(run, argument, message):
    result = run(argument)

    assert result.returncode == 1
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_flags_of_the_original_without_a_use_are_accepted(run):
    names = program.IGNORED_FLAGS
    result = run("--nouse_einsum", *(f"--{name}=1" for name in names))

    assert result.returncode == 0
    for name in names:
        assert f"warning: --{name} is ignored." in result.stderr


def test_flags_of_the_original_that_would_be_missed_are_refused(run):
    name = next(iter(program.UNSUPPORTED_FLAGS))
    result = run(f"--{name}=3")

    assert result.returncode == 1
    assert f"error: --{name} is not supported. " in result.stderr
    assert run(f"--{name}=").returncode == 0


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        ("value", "error: `number` is too large\n"),
        ("file", "error: corpus.txt: No such file\n"),
        ("import", "error: install the extra [beam]\n"),
    ],
)
def test_an_error_of_the_user_is_one_line_and_ends_with_1(run, failure, line):
    result = run(f"--failure={failure}")

    assert result.returncode == 1
    assert result.stderr.endswith(line)
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "last_line"),
    [
        (["--failure=bug"], "RuntimeError: a bug"),
        (["--failure=value", "--verbosity=1"], "    too large"),
    ],
)
def test_a_bug_and_verbosity_1_show_the_traceback(run, arguments, last_line):
    result = run(*arguments)

    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1] == last_line


def test_a_closed_pipe_is_no_error(script):
    with subprocess.Popen(
        [sys.executable, script, "--number=9"],
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        command.stdout.close()
        messages = command.stderr.read()

    assert "Traceback" not in messages
    assert "error" not in messages
    assert command.returncode == 141


def test_control_c_ends_with_130(run):
    result = run("--failure=interrupt")

    assert result.returncode == 130
    assert result.stderr.endswith("error: interrupted\n")


@pytest.mark.parametrize(
    ("verbosity", "ours", "others"), [(0, True, False), (1, True, True)]
)
def test_verbosity_determines_what_is_logged(run, verbosity, ours, others):
    result = run(f"--verbosity={verbosity}")

    assert ("read on" in result.stderr) == ours
    assert ("of another library" in result.stderr) == others
    assert "counting" in result.stderr
    assert ("chatter\n" in result.stderr) == others


def test_messages_of_an_import_that_fails_are_shown(run):
    assert "chatter\n" in run("--failure=dependency").stderr


def test_scores_are_printed_one_a_line(capsys):
    program.print_scores({"f1": 50.0, "accuracy": 1 / 3})

    assert capsys.readouterr().out == "f1 = 50\naccuracy = 0.333333\n"
