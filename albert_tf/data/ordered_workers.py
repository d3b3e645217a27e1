"""A function mapped over items by several processes, results in order.

Floor: data. Plain Python.
"""

import collections
import concurrent.futures
import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import process
from multiprocessing import connection
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Items in the hands of the workers, for each of them: one at work, one next.
_ITEMS_PER_WORKER = 2


@contextlib.contextmanager
def map_in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    num_workers: int,
) -> Iterator[Iterator[Result]]:
    """Gives `map(function, items)`, computed by `num_workers` processes.

    Only a few items and results exist at a time, however many there are. The
    processes end with the block, and also if this process is killed.

    Args:
        function: Can be pickled, as can items and results. One worker is this
            process itself.
        items: Read as results are taken.
        num_workers: At least 1.

    Raises:
        ChildProcessError: A worker process died.
    """
    if num_workers == 1:
        yield map(function, items)
        return
    # A fork would copy the locks of threads that it does not copy.
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    executor = concurrent.futures.ProcessPoolExecutor(
        num_workers,
        mp_context=context,
        initializer=_prepare_worker,
        initargs=(reader,),
    )
    with reader, writer:
        try:
            yield _results(executor, function, iter(items), num_workers)
        except BaseException:
            writer.close()  # Nobody waits for what is at work.
            raise
        finally:
            executor.shutdown(cancel_futures=True)


def _results(
    executor: concurrent.futures.Executor,
    function: Callable[[Item], Result],
    items: Iterator[Item],
    num_workers: int,
) -> Iterator[Result]:
    waiting: collections.deque[concurrent.futures.Future[Result]]
    waiting = collections.deque()
    try:
        for item in itertools.islice(items, num_workers * _ITEMS_PER_WORKER):
            waiting.append(executor.submit(function, item))
        while waiting:
            result = waiting.popleft().result()
            for item in itertools.islice(items, 1):
                waiting.append(executor.submit(function, item))
            yield result
    except process.BrokenProcessPool as error:
        raise ChildProcessError(
            "A worker process died, perhaps for lack of memory. Run the "
            "command again with fewer workers; finished files are kept."
        ) from error


def _prepare_worker(lifeline: connection.Connection) -> None:
    # Ctrl-C reaches every process; the parent alone decides what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: connection.Connection) -> None:
    """Ends this process when the parent lets go of its end, or is killed."""
    lifeline.poll(None)
    os._exit(1)
