"""The commands of experiments: each is run once.

What a command has made is done when a file beside it says so. The file has the
command: what another command has made is refused, not taken for its results.
"""

import dataclasses
import pathlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence

from albert_tf import files

ROOT = pathlib.Path(__file__).resolve().parents[1]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command:
    """What a user could type, and the file or folder that it makes."""

    words: Sequence[str]
    made: pathlib.Path
    # What a killed command leaves and the next one would refuse.
    refused: Sequence[pathlib.Path] = ()

    @property
    def log(self) -> pathlib.Path:
        """The file with all that it has written, beside `made`."""
        return self.made.with_name(f"{self.made.name}.log")

    def __str__(self) -> str:
        """The command as it is typed in the root folder."""
        text = shlex.join(["python", *self.words[1:]])
        return text.replace(f"{ROOT}/", "")


def create(
    program: str,
    made: pathlib.Path,
    *,
    refused: Sequence[pathlib.Path] = (),
    **flags: object,
) -> Command:
    """Returns the command of a script of this repository, or of a module."""
    words = [sys.executable, "-m", program]
    if program.endswith(".py"):
        words[1:] = [str(ROOT / program)]
    for name, value in flags.items():
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no{name}")
        else:
            words.append(f"--{name}={value}")
    return Command(words=words, made=made, refused=refused)


def shown(commands: Iterable[Command]) -> str:
    """Returns commands as lines."""
    return "\n".join(map(str, commands))


def run(command: Command) -> str:
    """Runs a command, unless that is done; returns the commit of its code."""
    done = command.made.with_name(f"{command.made.name}.done.json")
    if done.exists():
        record = files.read_json_object(done)
        if record["command"] != str(command):
            raise ValueError(
                f"{str(command.made)!r} was made by another command: "
                f"{record['command']!r}. Pass another --output_dir."
            )
        return str(record["commit"])
    for path in command.refused:
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
    call(command)
    record = {"command": str(command), "commit": _commit()}
    files.write_json(done, record)
    return record["commit"]


def call(command: Command) -> None:
    """Runs a command, whose output goes to the end of its log."""
    command.log.parent.mkdir(parents=True, exist_ok=True)
    with command.log.open("ab") as output:
        done = subprocess.run(
            command.words, stdout=output, stderr=output, check=False
        )
    if done.returncode:
        text = command.log.read_text(errors="replace").strip()
        *_, last = text.splitlines() or ["?"]
        raise ValueError(f"{last.removeprefix('error: ')} See {command.log}.")


def _commit() -> str:
    """Returns the commit of the code, if it is known."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"
