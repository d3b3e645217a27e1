"""Builds one corpus in many ways, some disturbed, and compares the bytes.

    python benchmarks/builds.py --input_file='corpus/*.txt' \
        --spm_model_file=30k-clean.model --beam_python=.venv-beam/bin/python

Each line of the output is a way to the same shards: its checksum, over the
names and bytes of all files of the folder, and what was seen on the way. Local
builds run in this Python, those with Beam in its own. Ends with exit code 1 if
a way does not end as it should.
"""

import argparse
import glob
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[1]
NUM_SHARDS = 8
SECONDS_BETWEEN_LOOKS = 0.02
MOST_SECONDS = 600
LOCAL, LOCAL_2 = "local, 1 worker", "local, 2 workers"
BEAM, BEAM_2 = "Beam, in memory", "Beam, 2 processes"


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input_file", required=True, help="globs of texts")
    parser.add_argument("--spm_model_file", required=True)
    parser.add_argument("--beam_python", help="default: no build with Beam")
    parser.add_argument("--dupe_factor", type=int, default=5)
    return parser.parse_args()


class Builds:
    """Starts builds of the corpus, and compares what they write.

    Attributes:
        num_failures: Number of ways that did not end as they should.
    """

    def __init__(
        self, arguments: argparse.Namespace, folder: pathlib.Path
    ) -> None:
        self._settings = [
            f"--spm_model_file={os.path.abspath(arguments.spm_model_file)}",
            f"--dupe_factor={arguments.dupe_factor}",
            "--max_seq_length=128",
        ]
        self.inputs = [
            os.path.abspath(path)
            for pattern in arguments.input_file.split(",")
            for path in sorted(glob.glob(pattern))
        ]
        self._folder = folder
        self.ways = {
            LOCAL: (sys.executable, ["--num_workers=1"]),
            LOCAL_2: (sys.executable, ["--num_workers=2"]),
        }
        if python := arguments.beam_python:
            python = os.path.abspath(python)
            for name, number in ((BEAM, 1), (BEAM_2, 2)):
                flags = ["--runner=beam", f"--num_workers={number}"]
                self.ways[name] = (python, flags)
        self._expected = ""
        self.num_failures = 0

    def start(
        self, way: str, folder: pathlib.Path, *flags: str
    ) -> "subprocess.Popen[str]":
        """Starts a build, as the first process of a session of its own."""
        python, own_flags = self.ways[way]
        folder.mkdir(exist_ok=True)
        return subprocess.Popen(
            [
                *(python, str(ROOT / "create_pretraining_data.py")),
                f"--input_file={','.join(self.inputs)}",
                f"--output_file=train@{NUM_SHARDS}",
                *(*self._settings, *own_flags, *flags),
            ],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def new_folder(self) -> pathlib.Path:
        """Makes an empty folder."""
        return pathlib.Path(tempfile.mkdtemp(dir=self._folder))

    def report(
        self, name: str, found: str, *facts: str, is_good: bool = True
    ) -> None:
        """Prints a line: a checksum and what was seen."""
        self._expected = self._expected or found
        is_good = is_good and found == self._expected
        self.num_failures += not is_good
        mark = "" if is_good else "  <-- WRONG"
        print(f"{found[:16]}  {'; '.join((name, *facts))}{mark}", flush=True)

    def undisturbed(self, way: str) -> None:
        """Builds, and does the same again, when all is there."""
        folder = self.new_folder()
        for name in (way, f"{way}, again"):
            started = time.monotonic()
            code, _, error = end(self.start(way, folder))
            seconds = time.monotonic() - started
            self.report(
                name,
                checksum(folder),
                f"{seconds:.1f} s",
                *([f"exit {code}: {error}"] if code else []),
                is_good=code == 0,
            )
        shutil.rmtree(folder)

    def halves(self, ways: Sequence[str]) -> None:
        """Builds two halves of the shards in two folders, and joins them."""
        folders = []
        half = NUM_SHARDS // 2
        for way, shards in zip(
            ways, (f"0-{half - 1}", f"{half}-{NUM_SHARDS - 1}"), strict=True
        ):
            folder = self.new_folder()
            folders.append(folder)
            end(self.start(way, folder, f"--shards={shards}"))
        one, other = folders
        for path in other.iterdir():
            path.rename(one / path.name)
        self.report(f"halves by {ways[0]} and {ways[1]}", checksum(one))

    def halves_at_once(self, ways: Sequence[str]) -> None:
        """Builds two halves of the shards in one folder at the same time."""
        folder = self.new_folder()
        half = NUM_SHARDS // 2
        builds = [
            self.start(ways[0], folder, f"--shards=0-{half - 1}"),
            self.start(ways[1], folder, f"--shards={half}-{NUM_SHARDS - 1}"),
        ]
        codes = [end(build)[0] for build in builds]
        self.report(
            f"halves at once in one folder by {ways[0]} and {ways[1]}",
            checksum(folder),
            f"exits {codes}",
            is_good=not any(codes),
        )
        shutil.rmtree(folder)

    def disturbed(self, way: str, victim: str) -> None:
        """Kills or interrupts a build in the middle, and runs it again."""
        folder = self.new_folder()
        build = self.start(way, folder)
        wait_for_middle(build, folder)
        disturb(build, victim)
        started = time.monotonic()
        code, lines, error = end(build)
        wait_for_session(build.pid)
        facts = [
            f"exit {code} after {time.monotonic() - started:.1f} s",
            f"{lines} lines of error",
            f"{len(finished(folder))} of {NUM_SHARDS} shards",
            f"{len(partials(folder))} partial files",
        ]
        if error:
            facts.append(repr(error[:80]))
        is_good = code != 0 and lines <= 1
        if victim not in ("command", "all"):
            is_good = is_good and not partials(folder)
        code, _, error = end(self.start(way, folder))
        if code:
            facts.append(f"then exit {code}: {error}")
        self.report(
            f"{way}, {victim} {'' if victim == 'Ctrl-C' else 'killed'}".strip(),
            checksum(folder),
            *facts,
            is_good=is_good and code == 0,
        )
        shutil.rmtree(folder)

    def two_at_once(self, ways: Sequence[str], delay: float) -> None:
        """Starts two builds of the same files."""
        folder = self.new_folder()
        builds = []
        for way in ways:
            builds.append(self.start(way, folder))
            time.sleep(delay)
        ends = [end(build) for build in builds]
        codes = [code for code, _, _ in ends]
        facts = [f"exits {codes}"]
        facts += [repr(error[:80]) for _, _, error in ends if error]
        if any(codes):  # They may also take turns, both refused by the other.
            codes.append(end(self.start(ways[0], folder))[0])
        self.report(
            f"at once, {delay} s apart: {ways[0]} and {ways[1]}",
            checksum(folder),
            *facts,
            is_good=codes[-1] == 0 and all(lines <= 1 for _, lines, _ in ends),
        )
        shutil.rmtree(folder)

    def other_builds(self, way: str) -> None:
        """Starts other builds where some of the shards are there."""
        folder = self.new_folder()
        build = self.start(LOCAL, folder)
        wait_for_middle(build, folder)
        disturb(build, "command")
        end(build)
        wait_for_session(build.pid)
        before = {path: path.read_bytes() for path in finished(folder)}
        corpus = f"--input_file={','.join(self.inputs[1:])}"
        for flag in ("--random_seed=1", "--max_seq_length=64", corpus):
            code, _, error = end(self.start(way, folder, flag))
            after = {path: path.read_bytes() for path in finished(folder)}
            name = f"{way}, {flag.partition('=')[0]}: exit {code}"
            is_refused = code == 1 and after == before
            self.num_failures += not is_refused
            print(
                f"{'refused':16}  {name}; {error[:100]!r}"
                f"{'' if is_refused else '  <-- WRONG'}",
                flush=True,
            )
        code, _, error = end(self.start(way, folder))
        self.report(
            f"{way}, then its own settings",
            checksum(folder),
            *([error] if code else []),
            is_good=code == 0,
        )
        shutil.rmtree(folder)


def end(build: "subprocess.Popen[str]") -> tuple[int, int, str]:
    """Waits for a build; returns exit code, lines of error, the first one."""
    with build:
        _, text = build.communicate(timeout=MOST_SECONDS)
    errors = [line for line in text.splitlines() if "warning: " not in line]
    return build.returncode, len(errors), errors[0] if errors else ""


def wait_for_middle(
    build: "subprocess.Popen[str]", folder: pathlib.Path
) -> None:
    """Waits until a shard is finished and another one is being written."""
    while not (finished(folder) and partials(folder)):
        if build.poll() is not None:
            sys.exit(f"error: the build has ended: {end(build)}")
        time.sleep(SECONDS_BETWEEN_LOOKS)


def disturb(build: "subprocess.Popen[str]", victim: str) -> None:
    """Kills processes of a build, or presses Ctrl-C in its terminal."""
    if victim == "command":
        os.kill(build.pid, signal.SIGKILL)
    elif victim == "Ctrl-C":
        os.killpg(build.pid, signal.SIGINT)
    elif victim == "all":
        for pid in session(build.pid):
            os.kill(pid, signal.SIGKILL)
    else:
        mark = {"worker": ("beam_worker", "spawn_main")}.get(
            victim, ("spawn_main",)
        )
        os.kill(find(session(build.pid), mark), signal.SIGKILL)


def find(pids: Iterable[int], marks: Sequence[str]) -> int:
    """Returns the process whose command has the first of the marks."""
    commands = {}
    for pid in pids:
        path = pathlib.Path(f"/proc/{pid}/cmdline")
        commands[pid] = path.read_bytes().decode() if path.exists() else ""
    for mark in marks:
        for pid, command in commands.items():
            if mark in command:
                return pid
    sys.exit(f"error: no process to kill in {commands}")


def session(leader: int) -> list[int]:
    """Returns the processes of a session that are alive."""
    found = subprocess.run(
        ["ps", "-o", "pid=,stat=", "-s", str(leader)],
        capture_output=True,
        text=True,
    )
    lines = [line.split() for line in found.stdout.splitlines()]
    return [int(pid) for pid, status in lines if not status.startswith("Z")]


def wait_for_session(leader: int) -> None:
    """Waits until no process of a session is left."""
    deadline = time.monotonic() + MOST_SECONDS
    while session(leader):
        if time.monotonic() > deadline:
            sys.exit("error: processes live on")
        time.sleep(SECONDS_BETWEEN_LOOKS)


def finished(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the record files that are whole."""
    return sorted(folder.glob("train-?????-of-?????"))


def partials(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files that are being written."""
    return sorted(folder.glob("*.partial"))


def checksum(folder: pathlib.Path) -> str:
    """Returns the digest of the names and bytes of all files."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def disturb_all(builds: Builds, way: str) -> None:
    """Disturbs builds of a way, each by another victim."""
    victims = ["command", "Ctrl-C", "all"]
    if way != LOCAL:
        victims.insert(0, "worker")
    if way == BEAM_2:
        victims.insert(0, "supervisor")
    for victim in victims:
        builds.disturbed(way, victim)


def main() -> None:
    """Builds, and compares."""
    arguments = parse_arguments()
    # A background job ignores Ctrl-C, and so would the builds.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as name:
        builds = Builds(arguments, pathlib.Path(name))
        for way in builds.ways:
            builds.undisturbed(way)
        last = [*builds.ways][-1]
        for ways in ([LOCAL, LOCAL_2], [LOCAL, last]):
            builds.halves(ways)
        builds.halves_at_once([LOCAL, last])
        for way in builds.ways:
            disturb_all(builds, way)
        for ways in ([LOCAL, LOCAL_2], [LOCAL_2, last], [last, last]):
            for delay in (0.0, 2.0):
                builds.two_at_once(ways, delay)
        for way in (LOCAL_2, last):
            builds.other_builds(way)
    if builds.num_failures:
        sys.exit(f"error: {builds.num_failures} ways are wrong")


if __name__ == "__main__":
    main()
