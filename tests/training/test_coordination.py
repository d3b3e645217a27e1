"""What workers say to one another, without TensorFlow's service."""

import os
import signal
import threading
import time

import pytest
import tensorflow as tf

from albert_tf.training import coordination
from albert_tf.training.cluster import Cluster
from tests.cli.workers import free_addresses

NAMES = ("Worker 0 (a:1)", "Worker 1 (b:1)")


class Service:
    """Stands in for TensorFlow's service; texts by key, never overwritten."""

    def __init__(self):
        self.texts, self.reported, self.dead = {"chief": ""}, [], []
        self._changed = threading.Condition()

    def put(self, key, value):
        with self._changed:
            if key in self.texts:
                raise tf.errors.AlreadyExistsError(None, None, key)
            self.texts[key] = value
            self._changed.notify_all()

    def get(self, key, milliseconds):
        with self._changed:
            limit = milliseconds / 1000 or None
            if not self._changed.wait_for(lambda: key in self.texts, limit):
                raise tf.errors.DeadlineExceededError(None, None, key)
            return self.texts[key]

    def report_error_to_cluster(self, code, message):
        self.reported.append(message)

    def get_task_states(self, jobs):
        [(_, number)] = jobs
        return [self.dead.count(i) or None for i in range(number)]


@pytest.fixture
def service(monkeypatch):
    found = Service()
    monkeypatch.setattr(coordination, "_put", found.put)
    monkeypatch.setattr(coordination, "_get", found.get)
    monkeypatch.setattr(coordination.context, "context", lambda: found)
    monkeypatch.setattr(coordination, "_listens", lambda _: True)
    monkeypatch.setattr(coordination, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(coordination, "_end_soon", lambda: None)
    return found


def worker(index):
    return Cluster(addresses=("a:1", "b:1"), index=index)


def end(index, error=None):
    """Ends a worker with an error, or well; returns the error it raises."""
    try:
        with coordination.ending_together(worker(index)):
            if error:
                raise error
    except BaseException as raised:
        return raised
    return None


def broken():
    return tf.errors.UnavailableError(None, None, "Connection reset")


def test_workers_end_well_together(service):
    others = threading.Thread(target=end, args=[1])
    others.start()

    assert end(0) is None
    others.join(10)

    assert not others.is_alive()
    assert not service.reported


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("no\nspace"), "has failed: no space"),
        (KeyboardInterrupt(), "has failed: KeyboardInterrupt"),
        (SystemExit(7), "has failed: 7"),
        (
            tf.errors.ResourceExhaustedError(None, None, "OOM"),
            "has failed: OOM",
        ),
    ],
)
@pytest.mark.parametrize("index", [0, 1])
def test_the_error_of_a_worker_is_told_to_all(index, error, said, service):
    service.texts["seen/1"] = ""

    assert end(index, error) is error

    assert service.reported == [f"{NAMES[index]} {said}"]
    assert service.texts["failure"] == f"{NAMES[index]} {said}"


def test_others_end_with_the_message_of_the_one_that_failed(service):
    service.texts["failure"] = f"{NAMES[0]} has failed: no space"

    error = end(1, broken())

    assert isinstance(error, ValueError)
    assert str(error) == f"{NAMES[0]} has failed: no space"
    assert "seen/1" in service.texts


def test_a_worker_whose_port_is_closed_is_named(service, monkeypatch):
    monkeypatch.setattr(
        coordination, "_listens", lambda address: address != "b:1"
    )

    error = end(0, broken())

    assert str(error).startswith(f"{NAMES[1]} has ended without a message")
    assert service.reported[0] == str(error)


def test_a_worker_without_heartbeats_is_named(service):
    service.dead.append(1)

    error = end(0, broken())

    assert str(error).startswith(f"{NAMES[1]} has ended without a message")


def test_a_chief_that_does_not_answer_is_named(service, monkeypatch):
    monkeypatch.setattr(coordination, "_PROBE_SECONDS", 0.01)
    del service.texts["chief"]

    error = end(1, broken())

    assert str(error).startswith(f"{NAMES[0]} has ended without a message")
    assert not service.reported


def test_without_a_reason_the_error_itself_is_shown(service, monkeypatch):
    monkeypatch.setattr(coordination, "HEARTBEAT_SECONDS", 0.1)

    error = end(1, broken())

    assert "to the other workers is lost: Connection reset" in str(error)


@pytest.mark.parametrize("index", [0, 1])
def test_a_worker_that_goes_on_regardless_is_ended(
    index, service, monkeypatch, caplog
):
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(coordination, "_GRACE_SECONDS", 0.1)
    with coordination.ending_together(worker(index)):
        if index:
            service.put("failure", f"{NAMES[0]} has failed: no space")
        else:
            service.dead.append(1)
        deadline = time.monotonic() + 10
        while not codes and time.monotonic() < deadline:
            time.sleep(0.01)
        service.texts.pop("failure", None)
        service.dead.clear()

    assert codes == [1]
    assert NAMES[1 - index] in caplog.text


@pytest.mark.parametrize("step", [3, 4])
def test_values_are_compared_with_those_of_the_chief(
    step, service, monkeypatch
):
    errors = {}

    def check(index, value):
        try:
            coordination.check_same(worker(index), {"step": value}, "Share it.")
        except ValueError as error:
            errors[index] = str(error)

    # Two processes count alike.
    monkeypatch.setattr(coordination, "_CHECKS", iter([5, 5]))
    other = threading.Thread(target=check, args=(1, step))
    other.start()
    check(0, 3)
    other.join(10)

    said = f"{NAMES[1]} has step=4, but the chief has step=3. Share it."
    assert errors == ({} if step == 3 else {0: said, 1: said})


def test_a_strategy_of_one_machine_has_no_workers(two_replicas):
    for strategy in (two_replicas, tf.distribute.get_strategy()):
        assert coordination.cluster_of(strategy) is None


def test_the_version_of_the_code_is_that_of_its_files():
    found = coordination.code_version()

    assert found == coordination.code_version()
    assert len(found["code of albert_tf"]) == 64
    assert found["version of TensorFlow"] == tf.__version__


def test_a_port_that_nobody_listens_at_is_known():
    [address] = free_addresses(1)

    assert not coordination._listens(address)
    # Not known is not refused.
    assert coordination._listens("no-such-host.invalid:1")


def test_signals_end_a_worker_that_waits_and_are_heard_again():
    before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]

    with coordination._default_signals():
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL

    assert before == [
        signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)
    ]
