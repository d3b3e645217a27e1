"""Maps a function over items with several processes; results are in order.

The executors of the standard library are not used: their workers live on as
orphans when the parent process is killed, and they read all items at once.
Here a worker ends when its pipe closes, and only a few items exist at a time.

Floor: data. Plain Python.
"""

import collections
import contextlib
import itertools
import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import connection, context, resource_tracker
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Items sent to each worker: the one it works on, and the next one.
_ITEMS_PER_WORKER = 2


@contextlib.contextmanager
def map_in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    num_workers: int,
) -> Iterator[Iterator[Result]]:
    """Yields `map(function, items)`, computed by `num_workers` processes.

    The processes end when the `with` block ends, even in the middle of an
    item, and also if this process is killed.

    Args:
        function: Can be pickled, as can items and results.
        items: Read as results are taken.
        num_workers: At least 1; if 1, this process does the work itself.

    Raises:
        ChildProcessError: A worker process died.
    """
    if num_workers == 1:
        yield map(function, items)
        return
    with contextlib.ExitStack() as stack:
        with _without_interrupts():
            pipes = [_start(function, stack) for _ in range(num_workers)]
        yield _results(pipes, iter(items))


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Blocks Ctrl-C in processes that are started in the `with` block.

    Ctrl-C reaches every process of the terminal, but only the parent decides
    what to do. In the parent it takes effect after the block.
    """
    # If the tracker started with the first worker, it would unblock Ctrl-C.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(
    function: Callable[[Any], Any], stack: contextlib.ExitStack
) -> connection.Connection:
    """Starts a worker that ends with the stack; returns our end of its pipe."""
    # A fork would copy the locks of threads that it does not copy.
    spawn: context.SpawnContext = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    with theirs:
        worker = spawn.Process(target=_work, args=(function, theirs))
        worker.daemon = True
        worker.start()
    stack.callback(worker.join)
    return stack.enter_context(ours)


def _results(
    pipes: Sequence[connection.Connection], items: Iterator[Any]
) -> Iterator[Any]:
    """Sends items to the workers in turn, and receives results in turn."""
    waiting: collections.deque[connection.Connection] = collections.deque()
    turns = itertools.islice(
        itertools.cycle(pipes), len(pipes) * _ITEMS_PER_WORKER
    )
    for pipe, item in zip(turns, items, strict=False):
        _exchange(pipe.send, item)
        waiting.append(pipe)
    while waiting:
        pipe = waiting.popleft()
        result, error = _exchange(pipe.recv)
        if error is not None:
            raise error
        for item in itertools.islice(items, 1):
            _exchange(pipe.send, item)
            waiting.append(pipe)
        yield result


def _exchange(send_or_receive: Callable[..., Any], *items: Any) -> Any:
    try:
        return send_or_receive(*items)
    except (EOFError, ConnectionError) as error:
        raise ChildProcessError(
            "A worker process died, perhaps because memory ran out. Run the "
            "command again with fewer workers; finished files are kept."
        ) from error


def _work(function: Callable[[Any], Any], pipe: connection.Connection) -> None:
    items: queue.SimpleQueue[Any] = queue.SimpleQueue()
    # Items are received in a thread, so that the parent never waits to send an
    # item to a worker that waits to send a result.
    threading.Thread(target=_read, args=(pipe, items), daemon=True).start()
    while True:
        pipe.send(_outcome(function, items.get()))


def _outcome(
    function: Callable[[Any], Any], item: Any
) -> tuple[Any, Exception | None]:
    try:
        return function(item), None
    except Exception as error:  # The parent raises it again.
        return None, error


def _read(pipe: connection.Connection, items: "queue.SimpleQueue[Any]") -> None:
    """Receives items; ends this process when the parent's end closes."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            items.put(pipe.recv())
    os._exit(0)
