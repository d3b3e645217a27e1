"""Starts workers of one run on the loopback, and lets things happen to them.

One process imports TensorFlow and then forks the workers, as `conftest` does
for commands; these run at the same time, and end as a process does.
"""

import atexit
import contextlib
import functools
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT = 300  # seconds, on a machine that is busy
# Forks a worker for each line, answers with its process id, and writes its
# exit code to a file.
_SERVER = """
import importlib, json, os, runpy, select, signal, sys, time
import albert_tf.training.finetune, albert_tf.training.pretrain
signal.signal(signal.SIGINT, signal.default_int_handler)

def hook(target, number, action):
    module, path = target.split(":")
    owner = importlib.import_module(module)
    *outer, name = path.split(".")
    for one in outer:
        owner = getattr(owner, one)
    original, calls = getattr(owner, name), []
    def hooked(*arguments, **named):
        calls.append(None)
        if len(calls) == number:
            print(f"HOOK {time.time()}", flush=True)
            if action == "fail":
                raise OSError(28, "No space left on device", "a file")
            if isinstance(action, int):
                time.sleep(action)
            else:
                os.kill(os.getpid(), getattr(signal, action))
        return original(*arguments, **named)
    setattr(owner, name, hooked)

def run(job):
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for target, file in enumerate([null, log, log]):
        os.dup2(file, target)
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    sys.argv = job["command"]
    if job["hook"]:
        hook(*job["hook"])
    runpy.run_path(sys.argv[0], run_name="__main__")

lines = open(0, "rb", buffering=0)
logs = {}
print("ready", flush=True)
while True:
    if select.select([lines], [], [], 0.05)[0]:
        line = lines.readline()
        if not line:
            break
        job = json.loads(line)
        child = os.fork()
        if not child:
            run(job)
            sys.exit()
        logs[child] = job["log"]
        print(child, flush=True)
    while logs:
        child, status = os.waitpid(-1, os.WNOHANG)
        if not child:
            break
        with open(logs.pop(child) + ".code", "w") as file:
            file.write(f"{os.waitstatus_to_exitcode(status)}\\n")
"""
# Where hooks hang: `module:function`.
STEP = "albert_tf.training.loop:TrainingLoop._record"
WRITE = "albert_tf.training.loop:TrainingLoop._write"
SAVE = "albert_tf.checkpoints.train_state:_write_folder"
FIRST_CHECK = "albert_tf.training.pretrain:_open_records"


class Worker:
    """A worker; `code` is None, and the process killed, if it does not end.

    Attributes:
        seconds: From the first hook of any worker to its end.
    """

    def __init__(self, log, command, folder, environment, hook):
        self._log = log
        self._code = log.with_name(f"{log.name}.code")
        self._code.unlink(missing_ok=True)
        self.code = self.seconds = None
        job = {
            "log": str(log),
            "command": command,
            "folder": str(folder),
            "environment": environment,
            "hook": hook,
        }
        server = _server()
        server.stdin.write(f"{json.dumps(job)}\n")
        server.stdin.flush()
        self._process = int(server.stdout.readline())

    def __repr__(self):
        return f"{self.code} after {self.seconds} s:\n{self.said}"

    @property
    def said(self):
        return self._log.read_text() if self._log.exists() else ""

    @property
    def last_line(self):
        return self.said.splitlines()[-1]

    @property
    def hook_time(self):
        lines = self.said.splitlines()
        times = [one.split()[1] for one in lines if one.startswith("HOOK ")]
        return float(times[0]) if times else None

    def has_ended(self):
        if self.code is None and self._code.exists():
            text = self._code.read_text()
            self.code = int(text) if text else None
        return self.code is not None

    @property
    def end_time(self):
        return self._code.stat().st_mtime

    def kill(self):
        if not self.has_ended():
            os.kill(self._process, signal.SIGKILL)


@functools.cache
def _server():
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TF_")}
    # As many threads as this machine may have workers.
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        env=clean | own | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def end():
        server.stdin.close()
        server.stdout.close()
        server.wait()

    atexit.register(end)
    assert server.stdout.readline() == "ready\n"
    return server


def free_addresses(number):
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(number):
            one = stack.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            found.append(f"127.0.0.1:{one.getsockname()[1]}")
        return found


def run_alone(script, flags, folder):
    """Runs a command in one process, which must end well."""
    command = [str(ROOT / script), *flags]
    alone = Worker(folder / "alone.log", command, folder, {}, None)
    _wait([alone], [])
    assert alone.code == 0, alone


def run(
    script,
    flags,
    folder,
    *,
    number=2,
    hooks=(),
    own_flags=(),
    environments=(),
    absent=(),
    folders=(),
):
    """Runs a command in several workers; returns those that were started.

    Args:
        script: The command.
        flags: Flags of all workers.
        folder: Where they run.
        number: Number of workers.
        hooks: By index, what happens to a worker: function, number of the
            call, and a signal, `fail`, or seconds to wait.
        own_flags: By index, further flags of a worker.
        environments: Variables of each in place of TF_CONFIG.
        absent: Workers that are not started.
        folders: By index, in which folder of `folder` a worker runs.
    """
    hooks, own_flags = dict(hooks), dict(own_flags)
    addresses = free_addresses(number)
    found = []
    for index in set(range(number)) - set(absent):
        task = {"type": "worker", "index": index}
        text = json.dumps({"cluster": {"worker": addresses}, "task": task})
        found.append(
            Worker(
                folder / f"worker-{index}.log",
                [str(ROOT / script), *flags, *own_flags.get(index, ())],
                folder / folders[index] if folders else folder,
                environments[index] if environments else {"TF_CONFIG": text},
                hooks.get(index),
            )
        )
    stopped = [i for i, hook in hooks.items() if hook[-1] == "SIGSTOP"]
    _wait(found, stopped)
    return found


def _wait(found, stopped):
    start = time.time()
    try:
        while time.time() - start < TIMEOUT and not all(
            one.has_ended()
            for index, one in enumerate(found)
            if index not in stopped
        ):
            time.sleep(0.1)
    finally:
        for one in found:
            one.kill()
    times = [one.hook_time for one in found if one.hook_time]
    first = min(times, default=start)
    for one in found:
        if one.code is not None:
            one.seconds = round(one.end_time - first, 1)
