"""Hides what TensorFlow prints to stderr, and logs at INFO."""

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
    """Hides what is printed to stderr, unless an error is raised, and INFO.

    While it is imported, TensorFlow prints before it reads any log level, so
    stderr itself is redirected. Later it prints what the user has set.
    """
    # Errors that matter (no CUDA) are raised as exceptions where they do.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _LOCK, tempfile.TemporaryFile() as text:
        disabled = logging.root.manager.disable
        logging.disable(max(disabled, logging.INFO))
        sys.stderr.flush()
        stderr = os.dup(2)
        os.dup2(text.fileno(), 2)
        try:
            yield
        except BaseException:
            text.seek(0)
            os.write(stderr, text.read())
            raise
        finally:
            logging.disable(disabled)
            os.dup2(stderr, 2)
            os.close(stderr)
