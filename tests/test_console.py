import os
import pathlib
import subprocess
import sys

import pytest

from albert_tf import console
from albert_tf.compare import __main__ as compare
from albert_tf.data import inspect
from albert_tf.explain import __main__ as explain
from albert_tf.predict import __main__ as predict

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMMANDS = {
    "compare": compare,
    "explain": explain,
    "inspect": inspect,
    "predict": predict,
}
CODE = """
import os, signal, sys
from albert_tf import console

def lines():
    for number in range(100_000):
        print(number)
    os.kill(os.getpid(), signal.SIGTERM)

sys.exit(console.run(lines))
"""


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_wrong_argument_is_one_line_and_ends_with_1(name, capsys):
    code = COMMANDS[name].main(["file", "--nosuch=1"])

    error = capsys.readouterr().err
    assert code == 1
    assert error == "error: unrecognized arguments: --nosuch=1\n"


@pytest.mark.parametrize(
    ("reader", "code", "error"),
    [("head -1", 141, ""), ("tail -1", 130, "error: interrupted\n")],
)
def test_a_closed_pipe_and_sigterm_have_codes(reader, code, error, tmp_path):
    script = tmp_path / "count.py"
    script.write_text(CODE, encoding="utf-8")

    done = subprocess.run(
        ["bash", "-c", f"$0 $1 | {reader}; exit ${{PIPESTATUS[0]}}"]
        + [sys.executable, script],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (code, error)


@pytest.mark.parametrize("name", ["tensorflow", "keras_hub", "a_module"])
def test_a_missing_module_of_tensorflow_names_the_extra(
    name, monkeypatch, capsys
):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    def command():
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    assert console.run(command) == 1
    advice = "pip install 'albert_tf[tensorflow]'"
    assert (advice in capsys.readouterr().err) == (name != "a_module")


@pytest.mark.parametrize("given", [None, "torch"])
def test_the_engine_is_the_one_that_is_installed(given):
    code = (
        "import importlib.util as util, os\n"
        "util.find_spec = lambda name: name == 'jax' or None\n"
        "import albert_tf\n"
        "print(os.environ['KERAS_BACKEND'])"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    environment.pop("KERAS_BACKEND", None)

    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | ({"KERAS_BACKEND": given} if given else {}),
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == f"{given or 'jax'}\n"


def test_a_bug_is_no_error_of_the_user():
    with pytest.raises(KeyError):
        console.run(lambda: {}["a"])
