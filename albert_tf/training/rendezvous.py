"""Workers meet and compare what they were started with, before TensorFlow.

TensorFlow's chief waits without end, and without listening to signals, for a
worker that does not come. So all first meet at the address of the chief, which
then belongs to TensorFlow: each says a line of JSON, and the chief answers all
of them with the same line, when all have come or it is too late.
"""

import contextlib
import json
import os
import select
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

from albert_tf.training.cluster import Cluster

_RETRY_SECONDS = 0.5
# Between a connection and its line; others than workers may connect.
_LINE_SECONDS = 5
# How much longer the others wait: the chief knows best who has not come.
_LATER_SECONDS = 10
_LONGEST_SHOWN = 60
# Of what is alike, before what differs.
_ALIKE_SHOWN = 20
_MORE_TIME = (
    "Is it running, and is its address right? --join_timeout gives it more "
    "time."
)


def meet(
    cluster: Cluster,
    values: Mapping[str, Any],
    advice: str,
    *,
    seconds: float,
) -> None:
    """Waits for all workers, and checks that they have the same values.

    Args:
        cluster: The workers.
        values: What is compared, by name; see `flat`.
        advice: What to do if they differ.
        seconds: How long to wait.

    Raises:
        ValueError: One has not come, or has other values; in all workers, with
            the same words if the chief has come.
        OSError: This worker cannot listen at its address.
    """
    deadline = time.monotonic() + seconds
    ours = flat(values) | {"addresses": ", ".join(cluster.addresses)}
    if cluster.index:
        verdict = _ask(cluster, ours, deadline + _LATER_SECONDS)
    else:
        with contextlib.ExitStack() as stack:
            found = _receive(cluster, deadline, stack)
            verdict = _verdict(cluster, found, ours, advice)
            for connection, _ in found.values():
                with contextlib.suppress(OSError):
                    connection.sendall(f"{json.dumps(verdict)}\n".encode())
    if verdict:
        raise ValueError(verdict)


def _ask(cluster: Cluster, ours: Mapping[str, str], deadline: float) -> str:
    """Says the own values to the chief; returns its answer."""
    host, _, port = cluster.addresses[0].rpartition(":")
    line = json.dumps({"index": cluster.index, "values": ours})
    while (left := deadline - time.monotonic()) > 0:
        try:
            with socket.create_connection((host, int(port)), left) as one:
                one.sendall(f"{line}\n".encode())
                if answer := _line(one, deadline):
                    return str(json.loads(answer))
        except (OSError, ValueError):
            pass  # not there yet, or not yet ours
        time.sleep(_RETRY_SECONDS)
    return (
        f"{cluster.name_of(0)}, the chief, has not come in time. {_MORE_TIME}"
    )


def _receive(
    cluster: Cluster, deadline: float, stack: contextlib.ExitStack
) -> dict[int, tuple[socket.socket, dict[str, str]]]:
    """Returns the connections of the workers that have come, and their values.

    The sockets are closed with the stack.
    """
    port = int(cluster.addresses[0].rpartition(":")[2])
    server = stack.enter_context(_listening(port))
    found: dict[int, tuple[socket.socket, dict[str, str]]] = {}
    while (left := deadline - time.monotonic()) > 0:
        if len(found) == len(cluster.addresses) - 1:
            # Who has gone again has to come again.
            gone = [i for i, (one, _) in found.items() if _is_closed(one)]
            if not gone:
                break
            for index in gone:
                del found[index]
        server.settimeout(left)
        try:
            connection, _ = server.accept()
        except TimeoutError:
            break
        stack.enter_context(connection)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads(
                _line(connection, time.monotonic() + _LINE_SECONDS)
            )
            if 0 < said["index"] < len(cluster.addresses):
                found[said["index"]] = connection, dict(said["values"])
    return found


@contextlib.contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    has_ipv6 = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if has_ipv6 else socket.AF_INET
    try:
        server = socket.create_server(
            ("", port), family=family, dualstack_ipv6=has_ipv6, backlog=1024
        )
    except OSError as error:
        raise ValueError(
            f"The chief cannot listen at port {port}: {error.strerror}. Give "
            "it another one, or end what uses it, perhaps a worker of an "
            "earlier run."
        ) from error
    with server:
        yield server


def _line(connection: socket.socket, deadline: float) -> str:
    """Returns what the other says up to the end of a line; empty if it goes.

    Raises:
        OSError: It says no line in time.
    """
    text = b""
    while not text.endswith(b"\n"):
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        more = connection.recv(65_536)
        if not more:
            return ""
        text += more
    return text.decode()


def _is_closed(connection: socket.socket) -> bool:
    # Nothing more is said: what can be read is the end.
    return bool(select.select([connection], [], [], 0)[0])


def _verdict(
    cluster: Cluster,
    found: Mapping[int, tuple[socket.socket, dict[str, str]]],
    ours: Mapping[str, str],
    advice: str,
) -> str:
    """Returns what the chief answers to all; empty if all is well."""
    others = range(1, len(cluster.addresses))
    missing = [cluster.name_of(i) for i in others if i not in found]
    if missing:
        return (
            f"{missing[0]} has not come in time, as {len(missing)} of "
            f"{len(cluster.addresses)} workers. {_MORE_TIME}"
        )
    differences = (
        difference(cluster.name_of(i), found[i][1], ours, advice)
        for i in others
    )
    return next(filter(None, differences), "")


def difference(
    name: str, theirs: Mapping[str, str], ours: Mapping[str, str], advice: str
) -> str:
    """Returns how a worker differs from the chief; empty if it does not.

    >>> difference("Worker 1 (b:2)", {"a": "1"}, {"a": "2"}, "Go.")
    'Worker 1 (b:2) has a=1, but the chief has a=2. Go.'
    """
    for key in {**ours, **theirs}:
        if theirs.get(key) != ours.get(key):
            both = [theirs.get(key), ours.get(key)]
            alike = len(os.path.commonprefix([text or "" for text in both]))
            one, other = (_shown(text, alike) for text in both)
            return (
                f"{name} has {key}={one}, but the chief has {key}={other}. "
                f"{advice}"
            )
    return ""


def _shown(text: str | None, alike: int) -> str:
    """Returns a text, or its part around where the other one begins to differ.

    >>> _shown("/disk" + 20 * "/folder" + "/train", 145)
    '...folder/folder/folder/train'
    """
    if text is None:
        return "(nothing)"
    if len(text) <= _LONGEST_SHOWN:
        return text
    start = max(0, alike - _ALIKE_SHOWN)
    end = start + _LONGEST_SHOWN - 3
    before, after = "..." * (start > 0), "..." * (end < len(text))
    return f"{before}{text[start:end]}{after}"


def flat(values: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Returns values as texts, those of inner objects as `outer.inner`.

    >>> flat({"a": {"b": 1}, "c": None})
    {'a.b': '1', 'c': 'None'}
    """
    found: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = str(value)
    return found
