import itertools
import os
import time

import pytest

from albert_tf.data import ordered_workers


def slow_square(number):
    time.sleep(0.02 * (number % 3))
    return number * number


def fail_at_3(number):
    if number == 3:
        raise ValueError("three")
    return number


def die(number):
    os._exit(number)


def sleep(seconds):
    time.sleep(seconds)


def nap(seconds):
    time.sleep(seconds)
    return seconds


def worker_id(number):
    return os.getpid()


def large(number):
    return bytes(4 * 10**6)


def test_results_come_in_the_order_of_the_items():
    with ordered_workers.map_in_order(
        slow_square, range(9), num_workers=2
    ) as results:
        assert list(results) == [n * n for n in range(9)]


def test_one_worker_is_this_process():
    with ordered_workers.map_in_order(
        worker_id, [0, 1], num_workers=1
    ) as results:
        assert list(results) == [os.getpid()] * 2


def test_items_are_read_only_a_few_ahead():
    read = []

    def items():
        for number in range(100):
            read.append(number)
            yield number

    with ordered_workers.map_in_order(
        slow_square, items(), num_workers=2
    ) as results:
        next(results)

        # Two for each worker, two more, and one in place of the result.
        assert len(read) <= 7


def test_a_long_item_does_not_hold_up_the_others():
    # Workers take turns: 0.9 + 0.3, where a second item that waits for a
    # certain worker would take 0.9 + 0.3 + 0.3 + 0.3.
    seconds = [0.9, 0.3, 0.3, 0.3]
    with ordered_workers.map_in_order(
        nap, [0, 0, *seconds], num_workers=2
    ) as results:
        assert list(itertools.islice(results, 2)) == [0, 0]  # They are up.
        started = time.monotonic()
        assert list(results) == seconds
        taken = time.monotonic() - started

    assert taken < 1.15


def test_all_dead_workers_are_one_error():
    with (
        ordered_workers.map_in_order(die, [3] * 9, num_workers=2) as results,
        pytest.raises(ChildProcessError, match="Run the command again"),
    ):
        list(results)


def test_an_error_in_a_worker_reaches_the_caller():
    with (
        ordered_workers.map_in_order(
            fail_at_3, range(9), num_workers=2
        ) as results,
        pytest.raises(ValueError, match="three"),
    ):
        list(results)


@pytest.mark.parametrize(
    ("function", "items"),
    [
        (sleep, [0, 60, 60]),  # Workers are at work.
        (large, range(100)),  # Results are on their way, and fill the pipes.
    ],
)
def test_an_interruption_does_not_wait(function, items):
    started = time.monotonic()

    with (
        pytest.raises(KeyboardInterrupt),
        ordered_workers.map_in_order(function, items, num_workers=2) as results,
    ):
        next(results)
        time.sleep(0.5)
        raise KeyboardInterrupt

    assert time.monotonic() - started < 30


def test_large_items_and_large_results_do_not_wait_for_each_other():
    items = [bytes(4 * 10**6)] * 9

    with ordered_workers.map_in_order(large, items, num_workers=2) as results:
        assert len(list(results)) == 9
