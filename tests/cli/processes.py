"""Commands run as a user runs them, without imports for each.

A server imports TensorFlow and then forks a child for each command; the child
runs the script from its first line, in the given folder and with the given
flags. Two commands share nothing but the imports.
"""

import contextlib
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
_LOG_LINE = re.compile(r"\d\d:\d\d:\d\d ")
# TensorFlow starts its threads at the first operation, so before it a process
# may fork. For each command, the server forks a process that waits for the
# command, prints its process id, and writes its exit code to a file.
_SERVER = """
import gc, importlib, json, os, runpy, signal, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
gc.freeze()  # so that collections in a child copy nothing

# A shell may have started the tests with Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

def run(job):
    files = [os.open(os.devnull, os.O_RDONLY)]
    for name in ("stdout", "stderr"):
        mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        files.append(os.open(job[name], mode))
    for target, file in enumerate(files):
        os.dup2(file, target)
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    sys.stdin = open(0)
    sys.argv = job["command"]
    exec(job["before"], {})
    runpy.run_path(sys.argv[0], run_name="__main__")

print("ready", flush=True)
for line in sys.stdin:
    if os.fork():
        continue
    child = os.fork()
    if not child:
        job, code = json.loads(line), 0
        try:
            run(job)
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
            code = 1
        if job["cleans_up"]:
            sys.exit(code)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(child, flush=True)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with open(json.loads(line)["code"], "w") as file:
        file.write(f"{code}\\n")
    os._exit(0)
"""

_HOOK = """
import functools, importlib, os, signal
(target, number, action), calls = {hook!r}, []
module, path = target.split(":")
*outer, name = path.split(".")
owner = functools.reduce(getattr, outer, importlib.import_module(module))
original = getattr(owner, name)
def hooked(*arguments, **named):
    calls.append(None)
    if len(calls) == number:
        if action == "fail":
            raise OSError(28, "No space left on device", "a file")
        os.kill(os.getpid(), getattr(signal, action))
    return original(*arguments, **named)
setattr(owner, name, hooked)
"""
# Where hooks hang.
STEP = "albert_tf.training.loop:TrainingLoop._add_to_window"
WRITE = "albert_tf.training.loop:TrainingLoop._write"
SAVE = "albert_tf.checkpoints.train_state:_write_folder"
FIRST_CHECK = "albert_tf.training.pretrain:_open_records"


class Done(subprocess.CompletedProcess):
    """A command that has ended."""

    @property
    def error(self):
        """The line of error of a failed command; only log lines precede it."""
        assert (self.returncode, self.stdout) == (1, ""), self
        *log, message = self.stderr.splitlines()
        assert all(_LOG_LINE.match(line) for line in log), log
        assert message.startswith("error: ")
        return message


class Command:
    """A command that is running."""

    def __init__(self, process_id, files):
        self._process_id = process_id
        self._files = files

    @property
    def code(self):
        """The exit code, or None while it runs."""
        path = self._files["code"]
        text = path.read_text() if path.exists() else ""
        return int(text) if text else None

    @property
    def stderr(self):
        return self._files["stderr"].read_text("utf-8")

    def kill(self, number=signal.SIGKILL):
        """Sends a signal."""
        os.kill(self._process_id, number)

    def wait(self):
        """Waits for the end; returns the exit code and what was printed."""
        while self.code is None:
            time.sleep(0.01)
        stdout = self._files["stdout"].read_text("utf-8")
        return Done((), self.code, stdout, self.stderr)


@contextlib.contextmanager
def serve(modules, path, output, **environment):
    """A function that starts commands where the modules are imported.

    Args:
        modules: Names of what the server imports.
        path: Its PYTHONPATH.
        output: Folder for what the commands print.
        **environment: Further variables.

    The function takes script and flags, `folder`, code to run `before`, further
    variables, and whether the process `cleans_up` at its end, which takes
    TensorFlow a second.
    """
    # As a user's shell has it, whatever other tests have set.
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TF_")}
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER, *modules],
        env=clean | {"PYTHONPATH": path} | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout.readline() == "ready\n"
        numbers = itertools.count()

        def start(
            script, *flags, folder, before="", cleans_up=False, **environment
        ):
            own = output / str(next(numbers))
            own.mkdir()
            files = {n: own / n for n in ("stdout", "stderr", "code")}
            job = {
                "command": [str(ROOT / script), *map(str, flags)],
                "folder": str(folder),
                "before": before,
                "environment": environment,
                "cleans_up": cleans_up,
            }
            job |= {name: str(path) for name, path in files.items()}
            server.stdin.write(f"{json.dumps(job)}\n")
            server.stdin.flush()
            return Command(int(server.stdout.readline()), files)

        yield start
        server.stdin.close()


def hook(target, number, action):
    """Code that lets something happen before a call of a function.

    Args:
        target: The function: `module:path`.
        number: Which of its calls.
        action: A signal to the process itself; or `fail`.
    """
    return _HOOK.format(hook=(target, number, action))
