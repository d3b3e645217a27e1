"""The folders that TF Serving looks for: a number for each version.

    D/1/saved_model.pb
    D/2/saved_model.pb
    D/batching_parameters.txt

Floor: export. Plain Python.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator

from albert_tf import files

BATCHING_FILE = "batching_parameters.txt"
# A request waits a little for others to share a run of the model. Lengths are
# dynamic, so a batch is as long as its longest text, and no longer.
_BATCHING = """\
max_batch_size { value: 32 }
batch_timeout_micros { value: 2000 }
max_enqueued_batches { value: 100 }
num_batch_threads { value: 2 }
"""


def next_version(export_dir: files.Path) -> int:
    """Returns the number after the highest version in a folder; 1 without.

    Raises:
        ValueError: It is not a folder.
    """
    name = _checked(export_dir)
    found = os.listdir(name) if os.path.isdir(name) else []
    return 1 + max((int(n) for n in found if _is_version(n)), default=0)


@contextlib.contextmanager
def new_version(export_dir: files.Path, version: int) -> Iterator[str]:
    """Gives a folder that becomes `D/<version>` when the block ends well.

    TF Serving sees it when it is whole. If the block fails, nothing stays.

    Raises:
        ValueError: The version exists; or `export_dir` is not a folder.
    """
    name = _checked(export_dir)
    path = os.path.join(name, str(version))
    if os.path.lexists(path):
        raise ValueError(
            f"{path} exists already, and may be served now. Pass another "
            f"version than {version}, or none for the next one."
        )
    existed = os.path.isdir(name)
    # Not a number, so that nobody serves it.
    partial = f"{path}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    try:
        yield partial
        _write_batching(name)
        os.replace(partial, path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        if not existed:
            with contextlib.suppress(OSError):
                os.rmdir(name)
        raise


def _checked(export_dir: files.Path) -> str:
    name = files.check_local(export_dir)
    if os.path.lexists(name) and not os.path.isdir(name):
        raise ValueError(
            f"--export_dir={name} is there, and not a folder. Pass another "
            "path."
        )
    return name


def _write_batching(export_dir: str) -> None:
    path = os.path.join(export_dir, BATCHING_FILE)
    if not os.path.exists(path):
        files.write_text(path, _BATCHING)


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdigit()
