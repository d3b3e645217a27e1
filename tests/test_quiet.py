import logging
import os
import subprocess
import sys

import pytest

from albert_tf import quiet

LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# Stands for TensorFlow, whose import takes seconds.
CODE = """
import os, sys, types
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
        os.write(2, b"chatter")

sys.meta_path.insert(0, Finder)
import albert_tf
albert_tf.AlbertModel
print(os.environ["TF_CPP_MIN_LOG_LEVEL"])
"""


def test_only_an_error_shows_what_is_hidden(monkeypatch, capfd):
    monkeypatch.setenv(LEVEL, "0")
    with quiet.hidden():
        os.write(2, b"hidden")
        assert not logging.getLogger("tensorflow").isEnabledFor(logging.INFO)
    assert logging.root.manager.disable == 0
    os.write(2, b"after")
    with pytest.raises(ImportError), quiet.hidden():
        os.write(2, b", before the error")
        raise ImportError

    assert capfd.readouterr().err == "after, before the error"
    assert os.environ[LEVEL] == "0"  # The user's.


def test_a_name_of_the_library_is_imported_quietly():
    environment = {k: v for k, v in os.environ.items() if k != LEVEL}

    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert (done.stdout, done.stderr) == ("3\n", "")
