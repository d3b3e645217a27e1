"""Ends interpreters while pipelines read: `exits.py REPOSITORY NORMAL RAISED`.

Each exit is a fork of this process, which imports TensorFlow once. NORMAL of
them reach the end of the program with an iterator alive, RAISED end by an
exception that holds it. Writes one line an exit: `ended`, `raised`, `aborted`
or `hung`.
"""

import os
import signal
import sys
import time

NUM_LOOKS, LOOK_SECONDS = 6000, 0.01


def read_and_end(number, is_raised):
    """Takes some batches of an input-bound pipeline, and leaves it running."""
    from albert_tf.data import example_order

    def read(delivery):
        time.sleep(0.001)
        return {"numbers": np.arange(delivery, delivery + 8)}

    batches = example_order.ahead(
        example_order.deliver(
            example_order.InputShard(),
            read,
            {"numbers": tf.TensorSpec([8], tf.int64)},
        )
    )
    for _ in range(number % 3):
        next(iter(batches))  # An iterator that ends while it reads.
    iterator = iter(batches)
    for _ in range(5 + 3 * number % 20):
        next(iterator)
    if is_raised:
        raise RuntimeError("ends the program")
    return iterator


def wait(pid):
    """Says how a process ended."""
    for _ in range(NUM_LOOKS):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            names = {0: "ended", 1: "raised"}
            return names.get(os.waitstatus_to_exitcode(status), "aborted")
        time.sleep(LOOK_SECONDS)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hung"


if __name__ == "__main__":
    root, num_normal, num_raised = sys.argv[1], *map(int, sys.argv[2:])
    sys.path.insert(0, root)

    import numpy as np
    import tensorflow as tf

    alive = None
    for number in range(num_normal + num_raised):
        if child := os.fork():
            sys.stdout.write(f"{wait(child)}\n")
            sys.stdout.flush()
        else:
            alive = read_and_end(number, number >= num_normal)
            break
