"""A worker process of a Beam pipeline on this machine: it ends with its parent.

Beam's own worker builds on after its parent was killed.

Started as `python -m albert_tf.data.beam_worker`.
"""

import os
import threading
import time

_SECONDS_BETWEEN_LOOKS = 0.5


def main() -> None:
    """Runs Beam's worker until it ends, or the parent does."""
    threading.Thread(
        target=_end_with, args=(os.getppid(),), daemon=True
    ).start()
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main([])


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os._exit(1)


if __name__ == "__main__":
    main()
