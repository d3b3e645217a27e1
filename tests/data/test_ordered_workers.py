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


def results_of(function, items, num_workers=2):
    with ordered_workers.map_in_order(
        function, items, num_workers=num_workers
    ) as results:
        return list(results)


def test_results_come_in_the_order_of_the_items():
    assert results_of(slow_square, range(9)) == [n * n for n in range(9)]


def test_one_worker_is_this_process():
    assert results_of(worker_id, [0, 1], num_workers=1) == [os.getpid()] * 2


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

    assert all(results_of(make_or_wait, items))


@pytest.mark.parametrize(
    ("function", "items", "error", "message"),
    [
        (fail_at_3, range(9), ValueError, "three"),
        # All workers are dead.
        (die, [3] * 9, ChildProcessError, "Run the command again"),
    ],
)
def test_a_failure_of_workers_is_one_error(function, items, error, message):
    with pytest.raises(error, match=message):
        results_of(function, items)


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
    assert len(results_of(large, [bytes(4 * 10**6)] * 9)) == 9
