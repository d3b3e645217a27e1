"""Runs slow tests for ten minutes: `make test-changed`, after `make test`.

First come the files of slow tests that changed lately, then the others of the
folders in which something changed, then an eighth of the rest, another one
each day. A test that would start after ten minutes, still runs then, or runs
for more than a third of them, is left out, which is printed: only a test that
fails fails the run.

"Lately" is since the branch left `origin/main`. On `main` itself nothing says
what was there before, so there it is the day before the newest commit. The
variable ALBERT_TF_TESTS_SINCE names another commit.
"""

import contextlib
import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import time
import traceback
import types
from collections.abc import Collection, Iterator, Sequence

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
NUM_PARTS = 8
SECONDS = 600
DAY = 24 * 60 * 60
# Folders whose slow tests are elsewhere.
TESTED_IN = {"docs": {"", "cli"}, "recipes": {"cli"}, "benchmarks": {"cli"}}
# Environments that only some tests need: the variable, and the folder's name.
ENVIRONMENTS = {
    "ALBERT_TF_PEER_PYTHON": ".venv-transformers",
    "ALBERT_TF_JAX_PYTHON": ".venv-jax",
    "ALBERT_TF_DOCS_PYTHON": ".venv-docs",
}


def main() -> int:
    """Prints what is selected, and runs it; returns pytest's exit code."""
    newest = _git("rev-parse", "HEAD")
    base = first_unchanged_commit()
    changed = _git("diff", "--name-only", base, newest).splitlines()
    day = int(_git("show", "--no-patch", "--format=%ct", newest)) // DAY
    files = slow_files()
    selected = select(files, changed, day=day, salt=newest)
    lines = [
        f"{len(changed)} files changed from {base[:8]} to {newest[:8]}. Of the "
        f"rest, part {day % NUM_PARTS + 1} of {NUM_PARTS} is added.",
        *(f"left out: {file}" for file in files if file not in selected),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
    for variable, folder in ENVIRONMENTS.items():
        python = ROOT / folder / "bin" / "python"
        if python.exists():
            os.environ.setdefault(variable, str(python))
    os.chdir(ROOT)
    options = ["-m", "slow", "--durations=20"]
    code = pytest.main([*options, *selected], plugins=[TimeLimit(SECONDS)])
    return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else code


def first_unchanged_commit() -> str:
    """Returns the commit, or the empty tree, that changes are counted from."""
    if name := os.environ.get("ALBERT_TF_TESTS_SINCE"):
        return _git("rev-parse", name)
    with contextlib.suppress(subprocess.CalledProcessError):
        base = _git("merge-base", "origin/main", "HEAD")
        if base != _git("rev-parse", "HEAD"):
            return base
    end = int(_git("show", "--no-patch", "--format=%ct", "HEAD")) - DAY
    before = _git("rev-list", "--max-count=1", f"--before={end}", "HEAD")
    return before or _git("hash-object", "-t", "tree", os.devnull)


def slow_files() -> list[str]:
    """Returns the files that have slow tests, by path from the root."""
    return sorted(
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if "mark.slow" in path.read_text(encoding="utf-8")
    )


def select(
    files: Sequence[str], changed: Collection[str], *, day: int, salt: str
) -> list[str]:
    """Returns the files to run, in order.

    Args:
        files: The files that have slow tests.
        changed: The files that changed.
        day: Number of the day, which chooses the part of the rest.
        salt: Any text: another one is another order of files that matter
            equally, so that the last ones are not always the same.
    """
    rooms = set().union(*map(rooms_of, changed))
    part = files[day % NUM_PARTS :: NUM_PARTS]

    def rank(file: str) -> tuple[int, bytes]:
        reasons = (file in changed, not rooms.isdisjoint(rooms_of(file)))
        number = [*reasons, True].index(True)
        return number, hashlib.sha256(f"{salt}{file}".encode()).digest()

    chosen = [file for file in files if rank(file)[0] < 2 or file in part]
    return sorted(chosen, key=rank)


def rooms_of(path: str) -> set[str]:
    """Returns the folders of tests/ that test a file; "" is tests/ itself."""
    first, *folders = path.split("/")[:-1] or [""]
    if first in TESTED_IN:
        return TESTED_IN[first]
    if first in ("albert_tf", "tests"):
        return {*folders[:1]} or {""}
    return {first}


class TimeLimit:
    """A plugin of pytest that skips all tests after a number of seconds."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._longest = seconds / 3

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        with self._limit(item):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        with self._limit(item):
            return (yield)

    @contextlib.contextmanager
    def _limit(self, item: pytest.Item) -> Iterator[None]:
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            pytest.skip(f"left out, no time: {item.nodeid}")

        left_out = f"left out, cut off: {item.nodeid}"
        is_cut = False

        def cut_off(_: int, frame: types.FrameType | None) -> None:
            nonlocal is_cut
            is_cut = True
            # Python drops what is raised in a `__del__`.
            names = {f.f_code.co_name for f, _ in traceback.walk_stack(frame)}
            if "__del__" not in names:
                pytest.skip(left_out)

        before = signal.signal(signal.SIGALRM, cut_off)
        # Again each second, for code that catches everything and goes on.
        signal.setitimer(signal.ITIMER_REAL, min(seconds, self._longest), 1)
        try:
            yield
        except (Exception, pytest.fail.Exception):
            if is_cut:  # and the failure follows from that
                pytest.skip(left_out)
            raise
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def _git(*arguments: str) -> str:
    # Another user may own the clone, as in containers.
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
