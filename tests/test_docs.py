"""The pages for users: links lead somewhere, commands parse, figures hold."""

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib

import pytest

import albert_tf
from albert_tf.published_configs import load_config
from benchmarks import planner
from tests.pages import PAGES, ROOT, calls
from tests.pages import name as _name

NOTEBOOKS = sorted(ROOT.glob("docs/notebooks/*.ipynb"))
COMMANDS = sorted(path.stem for path in ROOT.glob("*.py"))
MAX_README_LINES = 260
MAX_WORDS_OF_A_CELL = 20
DOCS_PYTHON = os.environ.get("ALBERT_TF_DOCS_PYTHON")


def _links(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    return re.findall(r"\]\(([^)\s]+)\)", text)


def _anchors(page):
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    words = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in words}


def _cells(notebook, kind):
    """Returns the source of a notebook's cells: `code` or `markdown`."""
    cells = json.loads(notebook.read_text())["cells"]
    return ["".join(one["source"]) for one in cells if one["cell_type"] == kind]


def _commands_of_notebook(notebook):
    """Yields script and arguments of the commands in a notebook's cells."""
    for cell in _cells(notebook, "code"):
        if cell.startswith("%%bash"):
            for line in cell.replace("\\\n", " ").splitlines():
                if line.strip().startswith("python "):
                    _, script, *arguments = shlex.split(line)
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
        for script, *arguments in calls(page)
        if script == f"{command}.py"
    ]

    found += [
        arguments
        for notebook in NOTEBOOKS
        for script, arguments in _commands_of_notebook(notebook)
        if script == f"{command}.py"
    ]

    assert found, f"no page shows how to call {command}.py"
    for arguments in found:
        parse(define_flags, *arguments)


def test_scripts_that_the_pages_call_exist():
    missing = {
        script
        for page in PAGES
        for script, *_ in calls(page)
        if not script.startswith("-")
        and not (ROOT / script).exists()
        and not (page.parent / script).exists()
    }

    assert not missing


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text().splitlines()

    assert len(lines) <= MAX_README_LINES


def test_the_readme_counts_the_lines():
    text = (ROOT / "README.md").read_text()
    said = re.search(r"([\d,]+) of ([\d,]+) lines", text)
    num_lines = [
        sum(
            len(path.read_text().splitlines())
            for path in (ROOT / folder).rglob("*.py")
        )
        for folder in ("albert_tf/modeling", "albert_tf")
    ]

    assert [int(one.replace(",", "")) for one in said.groups()] == (
        pytest.approx(num_lines, rel=0.02)
    )


def test_the_citation_and_the_changelog_have_the_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = re.search(
        r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.M
    )[1]
    newest = re.search(
        r"^## \[Unreleased\]: (\S+)$|^## \[(\d\S+)\] - \d{4}-",
        (ROOT / "CHANGELOG.md").read_text(),
        re.M,
    )

    assert cited == project["version"]
    assert cited in newest.groups()


def test_the_targets_that_the_pages_name_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w-]+):", makefile, re.M))
    named = {
        (_name(path), target)
        for path in [*PAGES, *ROOT.glob(".github/**/*.*")]
        for target in re.findall(
            r"(?:`|\$ |run: )make\s(?:PYTHON=\S+\s)?([a-z][\w-]+)",
            path.read_text(),
        )
    }

    assert ("CONTRIBUTING.md", "test") in named
    assert {one for one in named if one[1] not in targets} == set()


def test_the_pages_name_one_version_of_tf_serving():
    paths = [*PAGES, *NOTEBOOKS, *ROOT.glob("examples/serving/*.yml")]
    found = {
        version
        for path in paths
        for version in re.findall(
            r"tensorflow/serving:(?:\$\{\w+:-)?([\d.]+)", path.read_text()
        )
    }

    assert len(found) == 1


def test_the_site_has_every_page():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = set(re.findall(r"(\S+\.(?:md|ipynb))$", navigation, re.M))

    assert {_name(path) for path in [*PAGES, *NOTEBOOKS]} <= named
    assert all((ROOT / name).exists() for name in named)


def test_the_python_page_has_every_public_name():
    page = (ROOT / "docs" / "python.md").read_text()

    assert sorted(re.findall(r"^::: albert_tf\.(\w+)$", page, re.M)) == sorted(
        albert_tf.__all__
    )


def test_the_results_are_short():
    page = (ROOT / "docs" / "results.md").read_text()
    cells = [
        cell
        for line in page.splitlines()
        if line.startswith("|")
        for cell in line.strip("|").split("|")
    ]
    long = [one for one in cells if len(one.split()) > MAX_WORDS_OF_A_CELL]

    assert not long


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=_name)
def test_the_cells_of_notebooks_compile_and_link(notebook):
    for cell in _cells(notebook, "code"):
        if not cell.startswith("%%"):
            compile(cell, notebook.name, "exec")
    links = re.findall(
        r"\]\(([^)#\s]+)", "\n".join(_cells(notebook, "markdown"))
    )

    assert links
    assert all((notebook.parent / link).exists() for link in links)


@pytest.mark.slow
@pytest.mark.skipif(not DOCS_PYTHON, reason="`make test-slow` has it")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=_name)
def test_notebooks_run(notebook, tmp_path):
    script = ROOT / "docs" / "run_notebooks.py"

    subprocess.run(
        [
            DOCS_PYTHON,
            script,
            f"--output_dir={tmp_path}",
            f"--only={notebook.stem}",
        ],
        check=True,
    )

    assert (tmp_path / notebook.name).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "num_blocks"), [("keras.md", 8), ("small_models.md", 2)]
)
def test_the_examples_of_a_page_run_one_after_another(
    name, num_blocks, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    # XLA takes minutes to compile what these tiny models run once.
    monkeypatch.setattr(
        "keras.src.trainers.trainer.model_supports_jit", lambda model: False
    )
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    blocks = [*re.finditer(r"^```python\n(.*?)^```$", page, re.M | re.S)]
    names = {}

    for block in blocks:
        # So that the lines of a traceback are those of the page.
        code = "\n" * page[: block.start(1)].count("\n") + block[1]
        exec(compile(code, name, "exec"), names)
    for script, *arguments in calls(ROOT / "docs" / name):
        subprocess.run([sys.executable, ROOT / script, *arguments], check=True)

    assert len(blocks) == num_blocks


def test_the_hours_and_batches_of_devices_are_those_of_the_planner():
    page = (ROOT / "docs" / "resources.md").read_text()
    rows = re.findall(r"^\| (\w+_v2) \| (.*) \|$", page, re.M)
    assert len(rows) == 8

    for name, cells in rows:
        config = load_config(name)
        devices = ("v100-16", "a100-40", "h100-80")
        plans = [
            planner.plan(
                config,
                planner.DEVICES[device],
                length=512,
                batch=4096,
                num_devices=1,
                recompute=recompute,
            )
            for device in devices
            for recompute in (False, True)
        ]
        sizes = [one.micro_batch for one in plans]
        hours = [one.seconds * 125_000 / 3600 for one in plans[::2]]

        assert cells in (
            " | ".join(
                f"{plain} ({recomputed})"
                for plain, recomputed in zip(
                    sizes[::2], sizes[1::2], strict=True
                )
            ),
            " | ".join(f"{one:,.0f}" for one in hours),
        )


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
def test_the_site_is_made_of_all_pages_in_any_path(tmp_path):
    root = tmp_path / "ä folder"
    links = []
    for page in PAGES + NOTEBOOKS + [ROOT / "tests/parity/README.md"]:
        copy = root / page.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text("A page.")
        links.append((root / "build/pages" / page.relative_to(ROOT), copy))
    shutil.copy(ROOT / "Makefile", root)
    # Stands for the Python that makes the site of the pages.
    python = root / ".venv-docs/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(shutil.which("true"))

    subprocess.run(
        ["make", "--assume-old=.venv-docs/stamp", "site"], cwd=root, check=True
    )

    for link, page in links:
        assert link.samefile(page)


# Stands for uv: writes the names of the group, or has no solution.
_UV = """#!/bin/sh
while [ $# -gt 1 ]; do
    test "$1" = --group && group=$2
    test "$1" = --output-file && file=$2
    shift
done
test "$group" != "$WITHOUT_SOLUTION" && echo "numpy==2" > "$file"
"""


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
@pytest.mark.parametrize("without", ["beam", "nothing"])
def test_all_locks_are_replaced_or_none(without, tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    names = {path.name for path in ROOT.glob("*.lock")}
    for name in names:
        (tmp_path / name).write_text("old\n")
    uv = tmp_path / "uv"
    uv.write_text(_UV)
    uv.chmod(0o755)

    subprocess.run(
        ["make", "lock", f"UV={uv}"],
        cwd=tmp_path,
        env=os.environ | {"WITHOUT_SOLUTION": without},
        capture_output=True,
    )

    texts = {path.name: path.read_text() for path in tmp_path.glob("*.lock")}
    expected = "old\n" if without == "beam" else "numpy==2\n"
    assert texts == dict.fromkeys(names, expected)
