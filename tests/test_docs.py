"""The pages for users: links lead somewhere, commands parse."""

import json
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md")]
)
COMMANDS = sorted(path.stem for path in ROOT.glob("*.py"))
MAX_README_LINES = 250

# Parses command lines, given as JSON on stdin, with the flags of a command.
_PARSE = """
import importlib, json, sys
from absl import flags
module = f"albert_tf.cli.{sys.argv[1]}"
if sys.argv[1] == "run_experiment":
    module = "experiments.program"
importlib.import_module(module).define_flags()
for arguments in json.load(sys.stdin):
    flags.FLAGS.unparse_flags()
    rest = flags.FLAGS([sys.argv[1], *arguments])
    assert not rest[1:], f"no flags: {rest[1:]}"
"""


def _name(path):
    return path.relative_to(ROOT).as_posix()


def _links(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    return re.findall(r"\]\(([^)\s]+)\)", text)


def _anchors(page):
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    words = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in words}


def _commands(page):
    """Yields script and arguments of the commands in a page's blocks."""
    for block in re.findall(
        r"^```\w*\n(.*?)^```", page.read_text(), re.M | re.S
    ):
        for line in block.replace("\\\n", " ").splitlines():
            if not line.startswith("$ python "):
                continue
            script, *arguments = shlex.split(line.removeprefix("$ python "))
            # What comes after a variable or an ellipsis is not literal.
            if not any("$" in one or one == "..." for one in arguments):
                yield script, arguments


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page):
    broken = []
    for link in _links(page):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or anchor and anchor not in _anchors(target):
            broken.append(link)

    assert not broken


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_pages_parse(command):
    found = [
        arguments
        for page in PAGES
        for script, arguments in _commands(page)
        if script == f"{command}.py"
    ]

    result = subprocess.run(
        [sys.executable, "-c", _PARSE, command],
        input=json.dumps(found),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert found, f"no page shows how to call {command}.py"
    assert result.returncode == 0, result.stderr


def test_scripts_that_the_pages_call_exist():
    missing = {
        script
        for page in PAGES
        for script, _ in _commands(page)
        if not script.startswith("-")
        and not (ROOT / script).exists()
        and not (page.parent / script).exists()
    }

    assert not missing


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text().splitlines()

    assert len(lines) <= MAX_README_LINES
