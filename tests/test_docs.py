"""The pages for users: links lead somewhere, commands parse."""

import importlib
import pathlib
import re
import shlex

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md")]
)
COMMANDS = sorted(path.stem for path in ROOT.glob("*.py"))
MAX_README_LINES = 250


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
def test_commands_of_the_pages_parse(command, parse, monkeypatch):
    monkeypatch.chdir(ROOT)  # for flag files
    name = f"albert_tf.cli.{command}"
    if command == "run_experiment":
        name = "experiments.program"
    define_flags = importlib.import_module(name).define_flags
    found = [
        arguments
        for page in PAGES
        for script, arguments in _commands(page)
        if script == f"{command}.py"
    ]

    assert found, f"no page shows how to call {command}.py"
    for arguments in found:
        parse(define_flags, *arguments)


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
