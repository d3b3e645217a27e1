"""How every command starts, logs and ends."""

import functools
import subprocess
import sys

import pytest

import albert_tf
from albert_tf.cli import program
from tests.cli.processes import ROOT

SCRIPT = """
import logging
import os
import signal
import sys

from absl import flags

from albert_tf.cli import program


def define_flags():
    flags.DEFINE_integer("number", 3, "How far to count.", lower_bound=1)
    if "--preemption_exit_code=3" in sys.argv:
        flags.DEFINE_integer("preemption_exit_code", 1, "Of a run.")
    flags.DEFINE_string("failure", None, "What goes wrong.")


def main(values):
    logging.getLogger("counter").warning("counting")
    logging.getLogger("counter").info("of another library")
    logging.getLogger("albert_tf.data").info("read on")
    with program.quiet_import():
        os.write(2, b"chatter\\n")
        if values.failure == "dependency":
            raise ImportError("a library is missing")
    if values.failure:
        raise {
            "value": ValueError("`number` is\\n    too large"),
            "escape": ValueError("\\x1b[2J\\udc80"),
            "file": FileNotFoundError(2, "No such file", "corpus.txt"),
            "import": ImportError("install the extra [beam]"),
            "bug": RuntimeError("a bug"),
            "interrupt": KeyboardInterrupt(),
            "terminate": None,
        }[values.failure] or os.kill(os.getpid(), signal.SIGTERM)
    print(*range(1, values.number + 1))
    return 3 if values.number == 7 else None


program.run(define_flags, main, description="Counts to a number.")
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "count.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


@pytest.fixture
def run(run_before_imports, script):
    """Runs the script to its end."""
    return functools.partial(run_before_imports, script, folder=script.parent)


@pytest.mark.parametrize(
    ("flag", "code", "printed"),
    [
        ("--number=4", 0, "1 2 3 4"),
        # The function `main` decides the exit code.
        ("--number=7", 3, "1 2 3 4 5 6 7"),
        ("--version", 0, albert_tf.__version__),
    ],
)
def test_flags_reach_main(flag, code, printed, run):
    done = run(flag)

    assert (done.returncode, done.stdout) == (code, f"{printed}\n")


@pytest.mark.parametrize(
    ("module", "words"), [("predict", "standard input"), ("compare", "McNemar")]
)
def test_a_module_shows_its_help_before_any_slow_import(
    module, words, run_before_imports, tmp_path
):
    script = ROOT / "albert_tf" / module / "__main__.py"

    done = run_before_imports(script, "--help", folder=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert words in done.stdout


# Of the original's flags, the first that would be missed.
MISSED = next(iter(program.UNSUPPORTED_FLAGS))


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--number=many", "flag --number=many: invalid literal"),
        ("--nmber=4", "Unknown command line flag 'nmber'"),
        ("4", "unexpected argument '4'; flags look like --name=value"),
        (f"--{MISSED}=3", f"--{MISSED} is not supported. "),
        ("--train_adapters_only", "--train_adapters_only is not supported. "),
        ("--failure=value", "`number` is too large"),
        ("--failure=escape", r"\x1b[2J\udc80"),
        ("--failure=file", "corpus.txt: No such file"),
        ("--failure=import", "install the extra [beam]"),
    ],
)
def test_an_error_of_the_user_is_one_line(run, argument, message):
    assert run(argument).error.startswith(f"error: {message}")


def test_flags_of_the_original_without_a_use_are_accepted(run):
    names = program.IGNORED_FLAGS
    given = [f"--{name}=1" for name in names]
    # flags.txt of older runs has the second.
    switches = ("--nouse_einsum", "--notrain_adapters_only")
    result = run(*switches, f"--{MISSED}=", *given)

    assert result.returncode == 0
    for name in names:
        assert f"warning: --{name} is ignored." in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "last_line"),
    [
        (["--failure=bug"], 1, "RuntimeError: a bug"),
        (["--failure=value", "--verbosity=1"], 1, "    too large"),
        (["--failure=interrupt"], 130, "error: interrupted"),
        (["--failure=terminate"], 130, "error: interrupted"),
        (
            ["--failure=terminate", "--preemption_exit_code=3"],
            3,
            "error: interrupted",
        ),
    ],
)
def test_a_bug_and_verbosity_1_show_the_traceback(
    run, arguments, code, last_line
):
    result = run(*arguments)

    assert result.returncode == code
    assert ("Traceback" in result.stderr) == (code == 1)
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


LEVEL = 'import os; os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"'


@pytest.mark.parametrize(
    ("verbosity", "before"), [(0, ""), (0, LEVEL), (1, "")]
)
def test_verbosity_1_alone_shows_what_other_libraries_say(
    run, verbosity, before
):
    said = run(f"--verbosity={verbosity}", before=before).stderr

    assert "read on" in said and "counting" in said
    assert ("of another library" in said) == verbosity
    assert ("chatter\n" in said) == verbosity


def test_messages_of_an_import_that_fails_are_shown(run):
    assert "chatter\n" in run("--failure=dependency").stderr


def test_scores_are_printed_one_a_line(capsys):
    program.print_scores({"f1": 50.0, "accuracy": 1 / 3})

    assert capsys.readouterr().out == "f1 = 50\naccuracy = 0.333333\n"


def test_what_is_next_is_said_once_where_one_program_calls_several(
    caplog, monkeypatch
):
    caplog.set_level("INFO", "albert_tf")
    program.say_next("ls %s")
    monkeypatch.setenv(program.IS_CALLED, "1")
    program.say_next("ls")

    assert caplog.messages == ["next: ls %s"]
