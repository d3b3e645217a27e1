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


def wait_for(path):
    """Waits until there is a file; returns whether it came."""
    for _ in range(6000):
        if path.exists():
            return True
        time.sleep(0.01)
    return False


def make_or_wait(item):
    """Makes a file, or waits until another item has made it."""
    name, path = item
    if name == "make":
        path.touch()
    return name != "wait" or wait_for(path)


def sleep_and_make(path):
    if path:
        time.sleep(60)
        path.touch()


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


def test_a_long_item_does_not_hold_up_the_others(tmp_path):
    # Whichever worker has the first item, the other one does all others.
    names = ["wait", "none", "none", "none", "make"]
    items = [(name, tmp_path / "made") for name in names]

    with ordered_workers.map_in_order(
        make_or_wait, items, num_workers=2
    ) as results:
        assert all(results)


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


@pytest.mark.parametrize("function", [sleep_and_make, large])
def test_an_interruption_does_not_wait(tmp_path, function):
    # Workers are at work, or results are on their way and fill the pipes.
    marker = tmp_path / "ended"
    items = [None, marker, marker] if function is sleep_and_make else range(100)

    with (
        pytest.raises(KeyboardInterrupt),
        ordered_workers.map_in_order(function, items, num_workers=2) as results,
    ):
        next(results)
        time.sleep(0.5)
        raise KeyboardInterrupt

    assert not marker.exists()


def test_large_items_and_large_results_do_not_wait_for_each_other():
    items = [bytes(4 * 10**6)] * 9

    with ordered_workers.map_in_order(large, items, num_workers=2) as results:
        assert len(list(results)) == 9
