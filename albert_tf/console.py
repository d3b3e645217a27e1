"""How a command ends, and what it may print.

Exit codes: 0 done; 1 an error, reported in one line; 3, or
`--preemption_exit_code`, SIGTERM or Ctrl-C stopped a run, and the same command
continues it; 130 they ended another command; 141 the reader of stdout has gone.
"""

import argparse
import importlib.util
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

EXIT_USER_ERROR = 1
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

_OF_TENSORFLOW = ("tensorflow", "tensorflow_text", "keras_hub")
_ADVICE = ". This needs TensorFlow: pip install 'albert_tf[tensorflow]'"
# Controls but tabs and line feeds, and halves of surrogate pairs.
_CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class ArgumentParser(argparse.ArgumentParser):
    """Parses the arguments of a command; an error is a `ValueError`."""

    def error(self, message: str) -> NoReturn:
        """Raises the error, which ends the command as any other does."""
        raise ValueError(message)


def run(
    command: Callable[[], int | None],
    *,
    shows_traceback: Callable[[], bool] = lambda: False,
    code_if_interrupted: Callable[[], int | None] = lambda: None,
) -> int:
    """Runs a command; returns the exit code.

    An error of the user is reported as one line on stderr, unless the command
    `shows_traceback`. SIGTERM ends it as Ctrl-C does, so that unfinished files
    are removed.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = command()
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        code = code_if_interrupted()
        return EXIT_INTERRUPTED if code is None else code
    except BrokenPipeError:
        # The reader of stdout (`| head`) has closed it; Python flushes again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except Exception as error:
        if shows_traceback() or not _is_user_error(error):
            raise
        return report(one_line(error))
    return code or 0


def printable(text: str) -> str:
    r"""Escapes what a terminal would obey, or lacks in its encoding.

    >>> print(printable("f1_of_\x1b[2J"))
    f1_of_\x1b[2J
    """
    text = _CONTROLS.sub(lambda m: m[0].encode("unicode_escape").decode(), text)
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def report(message: object) -> int:
    """Prints an error of the user as one line; returns the exit code."""
    one_line = printable(" ".join(str(message).split()))
    sys.stderr.write(f"error: {one_line}\n")
    return EXIT_USER_ERROR


def _is_user_error(error: Exception) -> bool:
    if isinstance(error, ValueError | OSError | ImportError | MemoryError):
        return True
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(
        error, tensorflow.errors.OpError
    )


def one_line(error: Exception) -> str:
    """Returns the message of an error of the user."""
    if isinstance(error, ModuleNotFoundError) and error.name in _OF_TENSORFLOW:
        is_there = importlib.util.find_spec("tensorflow")
        return f"{error}{'' if is_there else _ADVICE}"
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return str(error).strip() or type(error).__name__
