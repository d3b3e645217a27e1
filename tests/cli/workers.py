"""Starts workers of one run on the loopback, and lets things happen to them."""

import contextlib
import dataclasses
import json
import socket
import time

from tests.cli import processes

# Seconds, on a machine that is busy: what has not ended then does not end.
TIMEOUT = 300


@dataclasses.dataclass(frozen=True)
class End:
    """How a worker has ended.

    Attributes:
        code: Its exit code; None if it did not end, and was killed.
        stdout: What it has printed.
        said: What it has said on stderr.
    """

    code: int | None
    stdout: str
    said: str

    @property
    def last_line(self):
        return self.said.splitlines()[-1]


def free_addresses(number):
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(number):
            one = stack.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            found.append(f"127.0.0.1:{one.getsockname()[1]}")
        return found


def run(
    start_script,
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
    """Runs a command in several workers; returns the ends of those started.

    Args:
        start_script: The fixture.
        script: The command.
        flags: Flags of all workers.
        folder: Where they run.
        number: Number of workers.
        hooks: By index, what happens to a worker: see `processes.hook`.
        own_flags: By index, further flags of a worker.
        environments: Variables of each in place of TF_CONFIG.
        absent: Workers that are not started.
        folders: By index, in which folder of `folder` a worker runs.
    """
    hooks, own_flags = dict(hooks), dict(own_flags)
    addresses = free_addresses(number)
    commands = {}
    for index in set(range(number)) - set(absent):
        task = {"type": "worker", "index": index}
        text = json.dumps({"cluster": {"worker": addresses}, "task": task})
        own = environments[index] if environments else {"TF_CONFIG": text}
        hook = processes.hook(*hooks[index]) if index in hooks else ""
        commands[index] = start_script(
            script,
            *flags,
            *own_flags.get(index, ()),
            folder=folder / folders[index] if folders else folder,
            before=hook,
            cleans_up=True,
            # As many threads as this machine may have workers.
            OMP_NUM_THREADS="1",
            **own,
        )
    stopped = {i for i, hook in hooks.items() if hook[-1] == "SIGSTOP"}
    _wait([one for i, one in commands.items() if i not in stopped])
    codes = [one.code for one in commands.values()]
    for one in commands.values():
        if one.code is None:
            one.kill()
    ends = [one.wait() for one in commands.values()]
    return [
        End(code, done.stdout, done.stderr)
        for code, done in zip(codes, ends, strict=True)
    ]


def _wait(commands):
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end and any(one.code is None for one in commands):
        time.sleep(0.1)
