"""Lock files: what one process at a time does."""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator

from albert_tf import files

_DIGITS = 16


def path_for(path: files.Path) -> str:
    """Returns the lock file of a file, a hidden one beside it.

    Its name is short and matches no pattern for such files. The folder is
    made.
    """
    folder, name = os.path.split(os.path.realpath(files.check_local(path)))
    os.makedirs(folder, exist_ok=True)
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()
    return os.path.join(folder, f".{digest[:_DIGITS]}.lock")


@contextlib.contextmanager
def held(path: files.Path, message: str) -> Iterator[None]:
    """Holds a lock file, which one process at a time can hold.

    The system releases the lock when the process ends, however it ends; the
    file that a killed process leaves behind locks nothing.

    Args:
        path: The lock file, which is created, and removed in the end.
        message: What to say if another process holds it.

    Raises:
        ValueError: Another process holds it.
    """
    name = files.check_local(path)
    with open(name, "a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous holder may have removed the file after it was
            # opened here, and a third process may have created another.
            if os.fstat(file.fileno()).st_nlink == 0:
                raise BlockingIOError
        except BlockingIOError:
            raise ValueError(message) from None
        try:
            yield
        finally:
            os.remove(name)
