"""Starts workers of one run on the loopback, and lets things happen to them."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT = 500  # seconds, on a machine that is busy
# Does something to its own process when a function is called, and says when.
_HOOK = """
import importlib, os, runpy, signal, sys, time
target, number, action, *sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
module, path = target.split(":")
owner = importlib.import_module(module)
*outer, name = path.split(".")
for one in outer:
    owner = getattr(owner, one)
original, calls = getattr(owner, name), []
def hooked(*arguments, **named):
    calls.append(None)
    if len(calls) == int(number):
        print(f"HOOK {time.time()}", flush=True)
        if action.startswith("SIG"):
            os.kill(os.getpid(), getattr(signal, action))
        elif action.isdecimal():
            time.sleep(int(action))
        else:
            raise OSError(28, "No space left on device", "a file")
    return original(*arguments, **named)
setattr(owner, name, hooked)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# Where hooks hang: `module:function`.
STEP = "albert_tf.training.loop:TrainingLoop._record"
FIRST_CHECK = "albert_tf.training.pretrain:_open_train_records"
SAVE = "albert_tf.checkpoints.train_state:_write_folder"
WRITE = "albert_tf.training.loop:TrainingLoop._write"
EVALUATION = "albert_tf.training.loop:TrainingLoop._evaluate"


class Ended:
    """A worker that has ended.

    Attributes:
        code: Its exit code; None if it had to be killed.
        said: All that it printed.
        seconds: From the first hook of any worker to its end.
    """

    def __init__(self, code, said, seconds):
        self.code, self.said, self.seconds = code, said, seconds

    @property
    def last_line(self):
        return self.said.splitlines()[-1]

    def __repr__(self):
        return f"{self.code} after {self.seconds} s:\n{self.said}"


def free_addresses(number):
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return found


def start(script, flags, folder, *, log, environment=(), hook=None):
    """Starts a command; what it prints goes to a file."""
    command = [sys.executable, str(ROOT / script), *flags]
    if hook:
        command[1:1] = ["-c", _HOOK, *map(str, hook)]
    clean = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=folder,
            env={
                **clean,
                "PYTHONPATH": str(ROOT),
                # As many threads as this machine may have workers.
                "OMP_NUM_THREADS": "1",
                **dict(environment),
            },
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def run_alone(script, flags, folder):
    """Runs a command in one process, which must end well."""
    log = folder / "alone.log"
    process = start(script, flags, folder, log=log)
    process.wait(TIMEOUT)
    assert process.returncode == 0, log.read_text()


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
    timeout=TIMEOUT,
):
    """Runs a command in several workers.

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
        timeout: Seconds after which those that still run are killed.

    Returns:
        An `Ended` for each that was started.
    """
    hooks, own_flags = dict(hooks), dict(own_flags)
    addresses = free_addresses(number)
    processes = {}
    for index in set(range(number)) - set(absent):
        cluster = {"worker": addresses}
        task = {"type": "worker", "index": index}
        variables = {
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": task})
        }
        processes[index] = start(
            script,
            (*flags, *own_flags.get(index, ())),
            folder / folders[index] if folders else folder,
            environment=environments[index] if environments else variables,
            hook=hooks.get(index),
            log=folder / f"worker-{index}.log",
        )
    stopped = {i for i, hook in hooks.items() if hook[-1] == "SIGSTOP"}
    return _wait(processes, folder, stopped, timeout)


def _wait(processes, folder, stopped, timeout):
    start_time, ends = time.time(), {}
    try:
        while time.time() - start_time < timeout:
            for index, process in processes.items():
                if index not in ends and process.poll() is not None:
                    ends[index] = time.time()
            if ends.keys() >= processes.keys() - stopped:
                break
            time.sleep(0.1)
    finally:
        codes = {index: one.poll() for index, one in processes.items()}
        for process in processes.values():
            process.kill()
            process.wait()
    first = min(_fired(processes, folder), default=start_time)
    return [
        Ended(
            codes[index],
            (folder / f"worker-{index}.log").read_text(),
            round(ends.get(index, time.time()) - first, 1),
        )
        for index in processes
    ]


def _fired(processes, folder):
    """Returns when the hooks of the workers were called."""
    lines = [
        line.split()[1]
        for index in processes
        for line in (folder / f"worker-{index}.log").read_text().splitlines()
        if line.startswith("HOOK ")
    ]
    return [float(one) for one in lines]
