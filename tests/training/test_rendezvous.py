"""Workers as threads, which meet on the loopback."""

import concurrent.futures
import contextlib
import socket
import time

import pytest

from albert_tf.training import rendezvous
from albert_tf.training.cluster import Cluster
from tests.cli.workers import free_addresses

FLAGS = {"--learning_rate": 0.01, "config": {"hidden_size": 16}}


def meet(cluster, values=FLAGS, seconds=20):
    """Returns the error of a worker, and None if it has met the others."""
    try:
        rendezvous.meet(cluster, values, "Change it.", seconds=seconds)
    except ValueError as error:
        return str(error)
    return None


def meet_all(number, values=(), absent=(), seconds=20):
    """Returns addresses, and the errors of the workers that come."""
    addresses = tuple(free_addresses(number))
    values = dict(values)
    with concurrent.futures.ThreadPoolExecutor(number) as pool:
        found = [
            pool.submit(
                meet,
                Cluster(addresses=addresses, index=index),
                values.get(index, FLAGS),
                seconds,
            )
            for index in range(number)
            if index not in absent
        ]
        return addresses, [one.result() for one in found]


@pytest.mark.parametrize("number", [1, 2, 4])
def test_workers_with_the_same_values_meet(number):
    assert meet_all(number)[1] == [None] * number


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            FLAGS | {"--learning_rate": 0.02},
            "has --learning_rate=0.02, but the chief has --learning_rate=0.01.",
        ),
        (
            FLAGS | {"config": {"hidden_size": 32}},
            "has config.hidden_size=32, but the chief has "
            "config.hidden_size=16.",
        ),
        (
            {"config": FLAGS["config"]},
            "has --learning_rate=(nothing), but the chief has "
            "--learning_rate=0.01.",
        ),
        (
            FLAGS | {"--preset": "budget"},
            "has --preset=budget, but the chief has --preset=(nothing).",
        ),
    ],
)
def test_one_that_differs_ends_all_with_the_same_words(values, words):
    addresses, errors = meet_all(3, {2: values})

    assert errors == [f"Worker 2 ({addresses[2]}) {words} Change it."] * 3


def test_long_values_are_cut():
    theirs, ours = {"a": "x" * 70}, {"a": "y"}

    said = rendezvous.difference("Worker 1", theirs, ours, "")

    assert f"has a={'x' * 57}..., but" in said


def test_long_values_that_begin_alike_are_shown_where_they_differ():
    theirs, ours = ({"a": "x" * 100 + end} for end in ("1" * 90, "2"))

    said = rendezvous.difference("Worker 1", theirs, ours, "")

    assert said == (
        f"Worker 1 has a=...{'x' * 20}{'1' * 37}..., but the chief has "
        f"a=...{'x' * 20}2. "
    )


def test_one_that_does_not_come_ends_all_others_in_time():
    start = time.monotonic()

    addresses, errors = meet_all(4, absent={1, 2}, seconds=1)

    assert time.monotonic() - start < 5
    assert len(errors) == 2
    for error in errors:
        assert f"Worker 1 ({addresses[1]}) has not come in time" in error
        assert "2 of 4 workers" in error
        assert "--join_timeout gives it more time" in error


def test_a_chief_that_does_not_come_is_named(monkeypatch):
    monkeypatch.setattr(rendezvous, "_LATER_SECONDS", 0)

    addresses, errors = meet_all(2, absent={0}, seconds=1)

    [error] = errors
    assert f"Worker 0 ({addresses[0]}), the chief, has not come" in error


def test_workers_with_other_addresses_do_not_meet():
    addresses = free_addresses(2)
    others = (addresses[0], "127.0.0.1:1")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        chief = pool.submit(meet, Cluster(addresses=tuple(addresses), index=0))
        other = pool.submit(meet, Cluster(addresses=others, index=1))

    assert chief.result() == other.result()
    assert f"has addresses={', '.join(others)}, but" in chief.result()


def test_a_port_in_use_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        error = meet(Cluster(addresses=(address,), index=0))

    assert "The chief cannot listen at port" in error


def test_strangers_and_workers_that_go_again_do_not_count():
    addresses = tuple(free_addresses(3))
    host, port = addresses[0].split(":")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        chief = pool.submit(meet, Cluster(addresses=addresses, index=0))
        for line in (b"GET / HTTP/1.0\n", b"[]\n", b'{"index": 5}\n', b""):
            say(host, port, line)
        # Killed while it waits for worker 2.
        say(host, port, b'{"index": 1, "values": {"a": "old"}}\n')
        time.sleep(0.2)
        other = pool.submit(meet, Cluster(addresses=addresses, index=2))
        time.sleep(0.2)
        assert not chief.done()

        assert meet(Cluster(addresses=addresses, index=1)) is None
        assert chief.result() is None
        assert other.result() is None


def say(host, port, line):
    while True:
        with (
            contextlib.suppress(ConnectionRefusedError),
            socket.create_connection((host, int(port))) as one,
        ):
            one.sendall(line)
            return
        time.sleep(0.05)
