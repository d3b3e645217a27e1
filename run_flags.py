"""What the scripts share: starting, failing in one line, groups of flags.

Floor 7. Nothing in albert_tf imports this file. It imports no TensorFlow, so
that `--help` and flag errors answer at once; a script imports the parts of
the library that need TensorFlow inside its `main`.
"""

import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from absl import app, flags
from absl import logging as absl_logging

EXIT_USER_ERROR = 1
EXIT_INTERRUPTED = 130


def run_script(
    define_flags: Callable[[], None],
    main: Callable[[flags.FlagValues], None],
    argv: Sequence[str] | None = None,
) -> None:
    """Parses the flags, runs `main`, and exits.

    A flag error, a `ValueError` or an `OSError` (and TensorFlow's own errors)
    becomes one line on stderr, `error: ...`, and exit code 1; `--verbosity=1`
    adds the traceback.
    """
    values = flags.FLAGS
    app.define_help_flags()
    define_flags()
    try:
        rest = values(list(argv if argv is not None else sys.argv))
        if len(rest) > 1:
            raise flags.Error(
                f"unexpected argument {rest[1]!r}; flags look like --name=value"
            )
    except flags.Error as error:
        _fail(str(error))
    _set_up_logging()
    try:
        main(values)
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        if absl_logging.get_verbosity() >= absl_logging.DEBUG:
            raise
        if not _is_user_error(error):
            raise
        _fail(_one_line(error))
    sys.exit(0)


def _set_up_logging() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    absl_logging.use_absl_handler()
    logging.getLogger().setLevel(
        absl_logging.converter.absl_to_standard(absl_logging.get_verbosity())
    )


def _is_user_error(error: Exception) -> bool:
    if isinstance(error, ValueError | OSError | ImportError | MemoryError):
        return True
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(
        error, tensorflow.errors.OpError
    )


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def _fail(message: str) -> NoReturn:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(EXIT_USER_ERROR)
