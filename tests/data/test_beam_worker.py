"""That a worker builds is tested in test_beam_runner.py."""

import subprocess
import sys
import time

_PARENT = """
import subprocess, sys
worker = subprocess.Popen([sys.executable, "-c", sys.argv[1]])
print(worker.pid, flush=True)
sys.stdin.read()
"""
# Beam's own part of a worker sleeps.
_WORKER = """
import sys, time, types
name = "apache_beam.runners.worker"
fake = types.ModuleType(name)
fake.sdk_worker_main = types.SimpleNamespace(main=lambda _: time.sleep(60))
for known in ("apache_beam", "apache_beam.runners", name):
    sys.modules[known] = fake
from albert_tf.data import beam_worker
beam_worker.main()
"""


def is_running(pid):
    found = subprocess.run(
        ["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True
    )
    return found.stdout.strip() not in ("", "Z")


def test_a_worker_ends_with_its_parent():
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, _WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    worker = parent.stdout.readline().strip()
    time.sleep(2)
    assert is_running(worker)

    with parent:
        parent.kill()

    deadline = time.monotonic() + 20
    while is_running(worker):
        assert time.monotonic() < deadline
        time.sleep(0.1)
