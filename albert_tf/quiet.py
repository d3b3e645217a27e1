"""Hides the output of TensorFlow to stderr, and logs at INFO, in commands.

A library silences nobody: in other programs, nothing is hidden.
"""

import contextlib
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterator

# Is set where the process is a command of ours.
IN_COMMAND = threading.Event()


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """Hides INFO logs and stderr; if an error is raised, stderr is printed.

    TensorFlow prints while it is imported, before it reads any log level, so
    stderr itself is redirected. Later, TensorFlow follows the user's log level.
    """
    if not IN_COMMAND.is_set():
        yield
        return
    # Errors that matter (no CUDA) are also raised as exceptions.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with tempfile.TemporaryFile() as file:
        disabled = logging.root.manager.disable
        logging.disable(max(disabled, logging.INFO))
        sys.stderr.flush()
        stderr = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield
        except Exception:
            file.seek(0)
            os.write(stderr, file.read())
            raise
        finally:
            logging.disable(disabled)
            os.dup2(stderr, 2)
            os.close(stderr)
