"""Hides the output of TensorFlow to stderr, and logs at INFO."""

import contextlib
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterator

_LOCK = threading.RLock()  # There is one stderr.


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """Hides INFO logs and stderr; if an error is raised, stderr is printed.

    TensorFlow prints while it is imported, before it reads any log level, so
    stderr itself is redirected. Later, TensorFlow follows the user's log level.
    """
    # Errors that matter (no CUDA) are also raised as exceptions.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _LOCK, tempfile.TemporaryFile() as file:
        disabled = logging.root.manager.disable
        logging.disable(max(disabled, logging.INFO))
        sys.stderr.flush()
        stderr = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield
        except BaseException:
            file.seek(0)
            os.write(stderr, file.read())
            raise
        finally:
            logging.disable(disabled)
            os.dup2(stderr, 2)
            os.close(stderr)
