import logging
import os
import subprocess
import sys
import threading

import pytest

from albert_tf import quiet

LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# Stands for TensorFlow, whose import takes seconds. Another thread logs.
CODE = """
import logging, os, sys, threading, types
module = types.ModuleType("albert_tf.modeling.albert_model")
module.__getattr__ = lambda name: None

class Finder:
    def find_spec(name, path=None, target=None):
        if name == module.__name__:
            from importlib.machinery import ModuleSpec
            return ModuleSpec(name, Finder)
    def create_module(spec):
        return module
    def exec_module(module):
        thread = threading.Thread(target=logging.info, args=("from a thread",))
        thread.start()
        thread.join()

sys.meta_path.insert(0, Finder)
import albert_tf
logging.basicConfig(level=logging.INFO)
albert_tf.AlbertModel
print("AlbertModel" in vars(albert_tf), "TF_CPP_MIN_LOG_LEVEL" in os.environ)
"""


def test_only_an_error_shows_what_is_hidden(monkeypatch, capfd):
    monkeypatch.setenv(LEVEL, "0")
    monkeypatch.setattr(quiet, "IN_COMMAND", threading.Event())
    quiet.IN_COMMAND.set()
    with quiet.hidden():
        os.write(2, b"hidden")
        assert not logging.getLogger("tensorflow").isEnabledFor(logging.INFO)
    assert logging.root.manager.disable == 0
    os.write(2, b"after")
    with pytest.raises(ImportError), quiet.hidden():
        os.write(2, b", before the error")
        raise ImportError
    with pytest.raises(KeyboardInterrupt), quiet.hidden():
        os.write(2, b"of no interest at Ctrl-C")
        raise KeyboardInterrupt

    assert capfd.readouterr().err == "after, before the error"
    assert os.environ[LEVEL] == "0"  # The user's.


def test_a_library_hides_nothing(monkeypatch, capfd):
    monkeypatch.setattr(quiet, "IN_COMMAND", threading.Event())

    with quiet.hidden():
        os.write(2, b"said")

    assert capfd.readouterr().err == "said"


def test_a_name_of_the_library_is_kept_and_silences_nobody():
    environment = {k: v for k, v in os.environ.items() if k != LEVEL}

    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "True False\n"
    assert done.stderr == "INFO:root:from a thread\n"


def test_names_need_neither_stderr_nor_a_folder_to_write_to():
    code = "import albert_tf; print(albert_tf.AlbertConfig.__name__)"

    done = subprocess.run(
        f"exec {sys.executable} -c '{code}' 2>&-",
        shell=True,
        env=os.environ | {"TMPDIR": "/nowhere"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )

    assert done.stdout == "AlbertConfig\n"
