"""Maps a function over items with several processes; results are in order.

The process pools of the standard library are not used: their workers live on
as orphans when the parent process is killed, and they read all items at once.
Here a worker ends when its pipe closes, and only a few items exist at a time.
A thread for each worker gives it the next item as soon as it is free, also
while an earlier item takes long.
"""

import collections
import contextlib
import itertools
import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from multiprocessing import connection, context, process, resource_tracker
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
# A result, or None and an error.
_Outcome = tuple[Any, Exception | None]

# Items that are read at a time: one at work and one waiting for each worker,
# and a few more, so that others go on while one item takes long.
_ITEMS_PER_WORKER = 2
_MORE_ITEMS = 2


@contextlib.contextmanager
def map_in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    num_workers: int,
    may_be_here: bool = True,
) -> Iterator[Iterator[Result]]:
    """Yields `map(function, items)`, computed by `num_workers` processes.

    The processes end when the `with` block ends, even in the middle of an
    item, and also if this process is killed. Function, items and results can
    be pickled. One worker is this process itself, if that `may_be_here`.
    """
    if num_workers == 1 and may_be_here:
        yield map(function, items)
        return
    with contextlib.ExitStack() as stack:
        # Ctrl-C reaches every process of the terminal, but only the parent
        # decides what to do. If the tracker of resources started with the first
        # worker, it would unblock Ctrl-C.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            workers = [_start(function, stack) for _ in range(num_workers)]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        pipes: queue.SimpleQueue[connection.Connection] = queue.SimpleQueue()
        for _, pipe in workers:
            pipes.put(pipe)
        threads = futures.ThreadPoolExecutor(num_workers)
        stack.callback(threads.shutdown)
        # A thread that waits for its worker goes on when the worker ends.
        for worker, _ in workers:
            stack.callback(worker.kill)
        stack.callback(threads.shutdown, wait=False, cancel_futures=True)
        yield _results(threads, pipes, iter(items), num_workers)


def _start(
    function: Callable[[Item], Result], stack: contextlib.ExitStack
) -> tuple[process.BaseProcess, connection.Connection]:
    """Starts a worker that ends with the stack; returns it and its pipe."""
    # A fork would copy the locks of threads that it does not copy.
    spawn: context.SpawnContext = multiprocessing.get_context("spawn")
    near_end, far_end = spawn.Pipe()
    with far_end:
        worker = spawn.Process(target=_work, args=(function, far_end))
        worker.daemon = True
        worker.start()
    stack.callback(worker.join)
    return worker, stack.enter_context(near_end)


def _results(
    threads: futures.Executor,
    pipes: "queue.SimpleQueue[connection.Connection]",
    items: Iterator[object],
    num_workers: int,
) -> Iterator[Any]:
    """Yields the results of all items, of which a few are at work at a time."""
    waiting: collections.deque[futures.Future[_Outcome]] = collections.deque()
    num_items = num_workers * _ITEMS_PER_WORKER + _MORE_ITEMS
    for item in itertools.islice(items, num_items):
        waiting.append(threads.submit(_exchange, pipes, item))
    while waiting:
        result, error = waiting.popleft().result()
        if error is not None:
            raise error
        for item in itertools.islice(items, 1):
            waiting.append(threads.submit(_exchange, pipes, item))
        yield result


def _exchange(
    pipes: "queue.SimpleQueue[connection.Connection]", item: object
) -> _Outcome:
    """Sends an item to a free worker, and receives the outcome."""
    pipe = pipes.get()
    try:
        pipe.send(item)
        outcome: _Outcome = pipe.recv()
        return outcome
    except (EOFError, ConnectionError) as error:
        raise ChildProcessError(
            "A worker process died, perhaps because memory ran out. Run the "
            "command again with fewer workers; finished files are kept."
        ) from error
    finally:
        # Even the pipe of a dead worker, so that no thread waits for ever.
        pipes.put(pipe)


def _work(
    function: Callable[[Item], Result], pipe: connection.Connection
) -> None:
    items: queue.SimpleQueue[Item] = queue.SimpleQueue()
    # Items are received in a thread, so that the end of the parent is noticed
    # in the middle of an item.
    threading.Thread(target=_read, args=(pipe, items), daemon=True).start()
    while True:
        item = items.get()
        try:
            outcome: _Outcome = function(item), None
        except Exception as error:  # The parent raises it again.
            outcome = None, error
        pipe.send(outcome)


def _read(
    pipe: connection.Connection, items: "queue.SimpleQueue[Item]"
) -> None:
    """Receives items; ends this process when the parent's end closes."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            items.put(pipe.recv())
    os._exit(0)
