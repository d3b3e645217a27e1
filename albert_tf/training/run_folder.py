"""The folder of a run: whose it is, and what it leaves behind.

Floor: training. Plain Python.
"""

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import IO, Any

from albert_tf import files
from albert_tf.checkpoints import run_checkpoints
from albert_tf.config import AlbertConfig

IDENTITY_FILE = "run.json"
CONFIG_FILE = "albert_config.json"
FLAGS_FILE = "flags.txt"
# Of a run's identity, what its task says of itself.
SETTINGS = "settings"
RESULTS_FILE = "eval_results.json"
LOCK_FILE = "run.lock"
_DIGEST = re.compile("[0-9a-f]{64}")
_DIGITS_SHOWN = 8
_NUM_SHOWN = 5
# Parts of `<run>/checkpoints/step-00000100/model.ckpt` and `<run>/best/`.
_IN_RUN = re.compile(r"checkpoints$|step-\d+$|best$|model\.ckpt")
CACHE_FOLDER = "cache"
# What a run that failed early may have left, and what a kill while `run.json`
# was written.
_HARMLESS = {LOCK_FILE, CACHE_FOLDER, f"{IDENTITY_FILE}.partial"}


def claim(
    output_dir: str, *, config: AlbertConfig, identity: Mapping[str, Any]
) -> None:
    """Makes the folder of a run, or checks that it is this run's.

    Args:
        output_dir: The folder; missing parents are made.
        config: Written to it as `albert_config.json`.
        identity: Everything that decides the numbers of the run, as JSON
            values. A folder whose run had another identity is refused.

    Raises:
        ValueError: See `check`.
    """
    check(output_dir, identity)
    # First of all files, so that a kill leaves a folder that is known.
    files.write_text(
        os.path.join(output_dir, IDENTITY_FILE),
        json.dumps(identity, indent=2) + "\n",
    )
    config.to_json_file(os.path.join(output_dir, CONFIG_FILE))


@contextlib.contextmanager
def locked(output_dir: str) -> Iterator[None]:
    """Keeps other processes from training in a folder meanwhile.

    The system lets go of the lock when the process ends, however it ends. A
    new folder that holds nothing else afterwards is removed.

    Raises:
        ValueError: Another process has the lock.
    """
    is_new = not os.path.isdir(output_dir)
    os.makedirs(output_dir, exist_ok=True)
    path = os.path.join(output_dir, LOCK_FILE)
    with open(path, "a", encoding="utf-8") as file:
        _lock(file, output_dir)
        try:
            yield
        finally:
            os.remove(path)
            if is_new and not os.listdir(output_dir):
                os.rmdir(output_dir)


def _lock(file: IO[str], output_dir: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Who had it may have removed the file since it was opened, and a
        # third process may have made another.
        if os.fstat(file.fileno()).st_nlink == 0:
            raise BlockingIOError
    except BlockingIOError:
        raise ValueError(
            f"Another process is training in {output_dir!r}. Wait for its "
            "end, or pass another --output_dir."
        ) from None


def check(output_dir: str, identity: Mapping[str, Any]) -> None:
    """Checks that a folder is this run's, or nobody's.

    Raises:
        ValueError: It belongs to another run, holds files of something else,
            or is itself a file.
    """
    found = read_identity(output_dir)
    if found:
        _check_same(output_dir, found, identity)
    elif os.path.lexists(output_dir) and not os.path.isdir(output_dir):
        raise ValueError(
            f"{output_dir!r} is a file. Pass a folder as --output_dir."
        )
    else:
        _check_empty(output_dir)


def check_use(output_dir: str, identity: Mapping[str, Any]) -> None:
    """Checks that the weights of a folder are those of the model wanted.

    Args:
        output_dir: The folder; it may belong to nobody.
        identity: The part of the identity that decides it.

    Raises:
        ValueError: It belongs to another run.
    """
    found = read_identity(output_dir)
    if found:
        wanted = _flat(identity)
        kept = {k: v for k, v in _flat(found).items() if k in wanted}
        _check_same(output_dir, kept, wanted)


def read_identity(output_dir: str) -> dict[str, Any]:
    """Returns the identity of the run in a folder; empty without one.

    Raises:
        ValueError: `run.json` is damaged.
    """
    return files.read_json_object(
        os.path.join(output_dir, IDENTITY_FILE), missing_ok=True
    )


def read_settings(output_dir: str) -> dict[str, Any]:
    """Returns the settings of the task that a run in a folder has learnt."""
    return read_identity(output_dir).get(SETTINGS, {})


def weights_to_use(
    output_dir: str, init_checkpoint: str | None, *, is_training: bool
) -> str:
    """Returns the path of the weights that a run evaluates and predicts with.

    Those are what it has trained. Without training they are the given ones,
    unless the run in the folder started from these: then the command is that
    of the training, given again, and means what came of it.

    Args:
        output_dir: Folder of the run.
        init_checkpoint: The given weights; None without.
        is_training: Whether the command trains.

    Raises:
        ValueError: There are no such weights.
    """
    path = run_checkpoints.trained_weights(output_dir)
    start = read_identity(output_dir).get("init_checkpoint")
    is_given = path is None or start != init_checkpoint
    if init_checkpoint and is_given and not is_training:
        return init_checkpoint
    if path is None:
        raise ValueError(
            f"There are no trained weights in {output_dir!r}. Pass "
            "--init_checkpoint with those of a fine-tuned model, or train "
            "first."
        )
    return path


def identity_of_weights(path: str) -> dict[str, Any]:
    """Returns the identity of the run that made weights; empty if unknown.

    Args:
        path: Of a run, of a checkpoint in it, or of the checkpoint's files.
    """
    folder = os.path.abspath(files.check_local(path))
    while not (found := read_identity(folder)):
        folder, name = os.path.split(folder)
        if not _IN_RUN.match(name):
            break
    return found


def _check_empty(output_dir: str) -> None:
    found = os.listdir(output_dir) if os.path.isdir(output_dir) else []
    if set(found) - _HARMLESS:
        raise ValueError(
            f"{output_dir!r} holds files but no {IDENTITY_FILE}, so they are "
            "not a run's. Pass another --output_dir, or empty it."
        )


def _check_same(
    output_dir: str, found: Mapping[str, Any], wanted: Mapping[str, Any]
) -> None:
    found, wanted = _flat(found), _flat(json.loads(json.dumps(wanted)))
    # What both have says more than what a run of another kind has besides.
    names = [
        *sorted(found.keys() & wanted),
        *sorted(wanted.keys() - found),
        *sorted(found.keys() - wanted),
    ]
    different = [
        f"{name}={_shown(found.get(name))} (now {_shown(wanted.get(name))})"
        for name in names
        if found.get(name) != wanted.get(name)
    ]
    if different:
        more = len(different) - _NUM_SHOWN
        shown = [*different[:_NUM_SHOWN], *([f"{more} more"] * (more > 0))]
        raise ValueError(
            f"{output_dir!r} belongs to another run, with "
            f"{'; '.join(shown)}. Pass another --output_dir, or the same "
            "settings to go on with that run."
        )


def _shown(value: Any) -> str:
    """Returns a value for a message; of a digest, its first digits."""
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        return f"{value[:_DIGITS_SHOWN]}..."
    return repr(value)


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values with those of inner objects among them."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            inner = _flat(value).items()
            flat |= {f"{name}.{key}": item for key, item in inner}
        else:
            flat[name] = value
    return flat


def write_flags(output_dir: str, lines: str) -> None:
    """Writes the flags of the command, one `--name=value` a line."""
    files.write_text(os.path.join(output_dir, FLAGS_FILE), lines)


def write_results(output_dir: str, results: Mapping[str, Any]) -> None:
    """Writes `eval_results.json`."""
    text = json.dumps(dict(results), indent=2, sort_keys=True)
    files.write_text(os.path.join(output_dir, RESULTS_FILE), text + "\n")
