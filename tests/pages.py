"""The pages for users, and the commands that they show."""

import functools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md")]
)
# Runs what a shell does itself: variables and loops. Other programs are not
# found, and Python says only how it is called.
_SHELL = """
PATH= ; cd() { :; } ; command_not_found_handle() { :; }
python() {
  '%s' -c 'import json, sys; print("\\0" + json.dumps(sys.argv[1:]))' "$@"
}
"""


def name(path):
    """Returns the name of a page as links have it."""
    return path.relative_to(ROOT).as_posix()


@functools.cache
def calls(page):
    """Returns the calls of Python on a page as a shell makes them.

    Each is a list of words, without an ellipsis. A line of output is no
    command, and a command goes on in lines that are indented.
    """
    blocks = re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.M | re.S)
    lines = re.findall(r"^\$ (.*\n(?:[ ]+.*\n)*)", "".join(blocks), re.M)
    with tempfile.TemporaryDirectory() as folder:
        printed = subprocess.run(
            ["/bin/bash", "-c", _SHELL % sys.executable + "".join(lines)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        ).stdout
    found = re.findall(r"^\0(.*)$", printed, re.M)
    return [[x for x in json.loads(call) if x != "..."] for call in found]
